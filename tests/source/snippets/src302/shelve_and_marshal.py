# expect: SRC302@5, SRC302@8
import marshal
import shelve

with shelve.open("cache") as cache:
    value = cache["key"]
with open("code.bin", "rb") as file:
    code = marshal.load(file)
