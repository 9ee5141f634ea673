# expect: none  (reached only where the argument does not exist)
from torch.hub import load_state_dict_from_url


def pretrained(url):
    try:
        return load_state_dict_from_url(url, map_location="cpu", weights_only=True)
    except TypeError:
        return load_state_dict_from_url(url, map_location="cpu")
