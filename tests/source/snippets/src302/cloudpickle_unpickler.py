# expect: SRC302@6
import cloudpickle


def read(file):
    return cloudpickle.Unpickler(file).load()
