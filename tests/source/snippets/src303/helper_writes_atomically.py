# expect: none
import os

import torch


def save(state, path):
    temporary = f"{path}.tmp"
    torch.save(state, temporary)
    os.replace(temporary, path)


def train(model, epochs):
    for _ in range(epochs):
        save(model.state_dict(), "last.pt")
