# expect: SRC307@4
def restore(net, state):
    options = {"strict": False}
    net.load_state_dict(state, **options)
