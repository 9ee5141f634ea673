# expect: SRC301@5, SRC301@6, SRC301@7
import importlib
import sys

a = importlib.import_module("torch").load("a.pt", weights_only=False)
b = __import__("torch").load("a.pt", weights_only=False)
c = sys.modules["torch"].load("a.pt", weights_only=False)
