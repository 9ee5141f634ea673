# expect: SRC302@4
import store

a = store.array("a.npy", objects=True)
b = store.array("a.npy")
c = store.read("a.pkl")
