# expect: none  (every turn of the loop has a folder of its own)
import os

import torch


def write(parameters, folder):
    for name, value in parameters.items():
        place = os.path.join(folder, name)
        os.makedirs(place, exist_ok=True)
        torch.save(value, os.path.join(place, "last.pt"))
        torch.save(value, f"{folder}/{name}/value.pt")
