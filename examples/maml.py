"""Meta-learning with torch.func: the model is called with other weights, under vmap and grad."""

import argparse

import checkpoints
import torch
from torch import nn
from torch.func import functional_call, grad, vmap


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--inner-lr", type=float, default=0.1)
    parser.add_argument("--tasks", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    checkpoints.add_options(parser)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    model = nn.Sequential(
        nn.Linear(1, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1)
    )
    model.register_buffer("shift", torch.zeros(1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def task_loss(params, x, y):
        return nn.functional.mse_loss(functional_call(model, params, (x,)), y)

    def adapted_loss(params, x, y, x_new, y_new):
        grads = grad(task_loss)(params, x, y)
        fast = {name: p - args.inner_lr * grads[name] for name, p in params.items()}
        return task_loss(fast, x_new, y_new)

    first = checkpoints.load(args, model=model, optimizer=optimizer)
    for step in range(first, args.steps):
        amplitude = torch.rand(args.tasks, 1, 1) * 4 + 0.1
        phase = torch.rand(args.tasks, 1, 1) * 3.14
        x = torch.rand(args.tasks, 20, 1) * 10 - 5
        y = amplitude * (x + phase).sin()
        params = dict(model.named_parameters())
        losses = vmap(adapted_loss, in_dims=(None, 0, 0, 0, 0))(
            params, x[:, :10], y[:, :10], x[:, 10:], y[:, 10:]
        )
        loss = losses.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.6f}")
        if step % 5 == 4:
            print(f"at zero {model(torch.zeros(1, 1)).item():.6f}")
        checkpoints.save(args, step + 1, model=model, optimizer=optimizer)


if __name__ == "__main__":
    main()
