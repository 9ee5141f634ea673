# expect: none  (the caller chooses, strict by default)
def restore(net, state, strict=True):
    net.load_state_dict(state, strict=strict)
