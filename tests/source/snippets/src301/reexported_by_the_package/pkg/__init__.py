# expect: none
from .files import fetch
from .files import fetch_safely as careful
