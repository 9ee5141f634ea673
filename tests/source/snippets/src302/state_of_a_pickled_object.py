# expect: none  (runs only where something is being unpickled already)
import cloudpickle


class Carried:
    """A function that goes to a worker process."""

    def __init__(self, function):
        self.function = function

    def __getstate__(self):
        return cloudpickle.dumps(self.function)

    def __setstate__(self, state):
        self.function = cloudpickle.loads(state)
