# expect: none
def load(model, state):
    missing, unexpected = model.load_state_dict(state, strict=False)
    if set(missing) - {"head.weight"} or unexpected:
        raise ValueError(missing)
