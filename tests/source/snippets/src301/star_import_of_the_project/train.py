# expect: SRC301@4
from loading import *

state = fetch("model.pt", safe=False)
