# expect: SRC301@4
from pkg import careful, fetch

state = fetch("model.pt", trusted=True)
other = fetch("model.pt")
third = careful("model.pt")
