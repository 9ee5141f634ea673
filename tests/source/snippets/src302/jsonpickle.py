# expect: SRC302@4
import jsonpickle

config = jsonpickle.decode(open("config.json").read())
