# expect: none  (a gradient to look at, nothing to go on from)
import torch


def train(parameters, steps):
    for _ in range(steps):
        for value in parameters:
            torch.save(value.grad, "grad.pt")
