# expect: none  (the state is another module's, not a file's)
def add_adapters(old, new):
    state = old.state_dict()
    new.load_state_dict(state, strict=False)
    return new
