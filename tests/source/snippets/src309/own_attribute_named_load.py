# expect: none  (an object of this file, not the library)
class Backend:
    pass


torch = Backend()
torch.load = lambda path: path
