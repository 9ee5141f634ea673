# expect: SRC301@4
from io_tools import fetch

a = fetch("a.pt", weights_only=False)
b = fetch("a.pt")
