# expect: SRC302@8, SRC302@9
import cloudpickle
import dill


def policy(path, data):
    with open(path, "rb") as file:
        first = dill.load(file)
    return first, cloudpickle.loads(data)
