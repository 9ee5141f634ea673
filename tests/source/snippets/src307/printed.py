# expect: none  (the result is printed)
def restore(net, state):
    print(net.load_state_dict(state, strict=False))
