# expect: none  (the keys are compared before they are loaded)
def restore(net, state):
    missing = set(net.state_dict()) - set(state)
    if missing - {"head.weight", "head.bias"}:
        raise KeyError(sorted(missing))
    net.load_state_dict(state, strict=False)
