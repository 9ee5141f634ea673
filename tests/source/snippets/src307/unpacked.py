# expect: none  (both lists are printed)
def restore(net, state):
    missing, unexpected = net.load_state_dict(state, strict=False)
    print(missing, unexpected)
