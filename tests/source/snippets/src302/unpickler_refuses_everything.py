# expect: none  (no name is let through)
import pickle


class NoClasses(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError("plain values only")
