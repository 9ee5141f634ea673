# expect: SRC302@4, SRC302@5
import pickle

parts = [pickle.load(open(name, "rb")) for name in ("a.pkl", "b.pkl")]
wholes = list(map(pickle.loads, [b"x", b"y"]))
