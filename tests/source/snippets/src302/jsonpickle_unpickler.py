# expect: SRC302@6
import jsonpickle


def read(text):
    return jsonpickle.unpickler.Unpickler().restore(text)
