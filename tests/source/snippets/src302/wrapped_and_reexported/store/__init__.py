# expect: none
from .disk import *
