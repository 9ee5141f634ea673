# expect: none  (the missing keys are tested)
def restore(net, state):
    result = net.load_state_dict(state, strict=False)
    if result.missing_keys:
        raise RuntimeError(result.missing_keys)
