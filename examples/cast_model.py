"""Move and cast a model while it trains: bfloat16 weights with fp32 master copies, then float64."""

import argparse

import checkpoints
import torch
from torch import nn


class Masters(list):
    """The weights in float32."""

    def state_dict(self):
        return dict(enumerate(self))

    def load_state_dict(self, state):
        with torch.no_grad():
            for place, master in enumerate(self):
                master.copy_(state[place])


def to_double(model):
    """Half precision is no longer enough."""
    model.double()
    return torch.float64, torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--double-at", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    checkpoints.add_options(parser)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    model = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 2))
    model.register_buffer("scale", torch.tensor([1.0, 2.0]))
    master = Masters(p.detach().clone().requires_grad_(True) for p in model.parameters())
    model.bfloat16()
    optimizer = torch.optim.AdamW(master, lr=1e-2)
    dtype = torch.bfloat16
    first = checkpoints.step_of(args)
    if first > args.double_at:
        dtype, optimizer = to_double(model)
    checkpoints.load(args, master=master, model=model, optimizer=optimizer)

    for step in range(first, args.steps):
        if step == args.double_at:
            dtype, optimizer = to_double(model)
        x = torch.randn(8, 16, dtype=dtype)
        loss = ((model(x) * model.scale - x[:, :2]) ** 2).mean()
        model.zero_grad()
        loss.backward()
        if dtype is torch.bfloat16:
            for p, m in zip(model.parameters(), master):
                m.grad = p.grad.float()
            optimizer.step()
            with torch.no_grad():
                for p, m in zip(model.parameters(), master):
                    p.copy_(m)
        else:
            optimizer.step()
        if step == args.double_at + 2:
            model.to(memory_format=torch.preserve_format).cpu()
        print(f"step {step} loss {loss.item():.6f}")
        checkpoints.save(args, step + 1, master=master, model=model, optimizer=optimizer)


if __name__ == "__main__":
    main()
