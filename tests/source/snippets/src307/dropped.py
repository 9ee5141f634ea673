# expect: SRC307@7
from model import Net


def restore(state):
    net = Net()
    net.load_state_dict(state, strict=False)
    return net
