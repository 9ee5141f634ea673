# expect: SRC306@6
import torch


def log(loss: torch.Tensor) -> None:
    value = loss.detach().to(torch.device("cpu"), non_blocking=True)
    print(f"loss {value.item():.3f}")
