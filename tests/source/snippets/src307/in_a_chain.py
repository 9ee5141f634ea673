# expect: none
def load(model, state):
    assert not model.load_state_dict(state, strict=False).missing_keys
