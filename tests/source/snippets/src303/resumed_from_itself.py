# expect: SRC303@10
import torch


def train(model, epochs):
    state = torch.load("run.pt", weights_only=True)
    model.load_state_dict(state)
    for _ in range(epochs):
        advance(model)
        torch.save(model.state_dict(), "run.pt")
