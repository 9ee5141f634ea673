# expect: none  (strict loading raises by itself)
def restore(net, optimizer, state):
    net.load_state_dict(state["model"])
    net.load_state_dict(state["ema"], strict=True)
    optimizer.load_state_dict(state["optimizer"])
