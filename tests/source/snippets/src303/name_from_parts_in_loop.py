# expect: SRC303@11
import os
import torch


def train(model, epochs, folder):
    for epoch in range(epochs):
        model.step()
        state = {"model": model.state_dict(), "epoch": epoch}
        path = os.path.join(folder, "last" + ".ckpt")
        torch.save(state, path)
