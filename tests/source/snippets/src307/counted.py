# expect: none  (the keys are counted and reported)
import logging


def restore(net, state):
    own = net.state_dict()
    kept = {k: v for k, v in state.items() if k in own}
    net.load_state_dict(kept, strict=False)
    logging.info("loaded %d of %d tensors", len(kept), len(own))
