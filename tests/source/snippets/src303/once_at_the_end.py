# expect: none  (written once, nothing is overwritten while training goes on)
import torch


def main(model, epochs):
    for _ in range(epochs):
        advance(model)
    torch.save(model.state_dict(), "weights.pt")
