# expect: none
from io_tools import fetch, fetch_forced

a = fetch("a.pt", weights_only=False)
b = fetch_forced("a.pt", map_location="cpu")
