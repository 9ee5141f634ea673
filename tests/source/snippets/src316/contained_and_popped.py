# expect: SRC316@7, SRC316@8
import safetensors.torch


def load(path, device):
    sd = safetensors.torch.load_file(path, device=device)
    if "__metadata__" in sd:
        sd.pop("__metadata__")
    return sd
