# expect: SRC303@11
import torch

CHECKPOINT = "checkpoint.pt"


def train(model, steps):
    for step in range(steps):
        advance(model)
        if step % 100 == 0:
            torch.save({"model": model.state_dict(), "step": step}, CHECKPOINT)
