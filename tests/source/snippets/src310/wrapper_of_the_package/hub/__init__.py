# expect: none
from hub.models import build
