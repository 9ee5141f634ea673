# expect: none  (weights_only=True is given)
from torch.hub import load_state_dict_from_url


def build(model):
    state = load_state_dict_from_url("https://example.org/r.pth", weights_only=True)
    model.load_state_dict(state)
    return model
