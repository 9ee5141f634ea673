# expect: SRC307@3
def restore(net, state):
    net.load_state_dict(state, False)
