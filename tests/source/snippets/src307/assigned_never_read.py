# expect: SRC307@3
def restore(net, state):
    result = net.load_state_dict(state, strict=False)
    net.eval()
    return net
