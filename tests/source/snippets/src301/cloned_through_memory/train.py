# expect: none
from tools import clone

teacher = clone(object())
