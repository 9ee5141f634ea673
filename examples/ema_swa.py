"""Average weights: exponentially at every step, SWA from the middle on, batch norm at the end."""

import argparse

import checkpoints
import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--swa-start", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    checkpoints.add_options(parser)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    model = nn.Sequential(
        nn.Linear(8, 32),
        nn.BatchNorm1d(32),
        nn.SiLU(),
        nn.Linear(32, 32),
        nn.SiLU(),
        nn.Linear(32, 1),
    )
    ema_model = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
    swa_model = AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.steps)
    swa_scheduler = SWALR(optimizer, anneal_epochs=3, swa_lr=0.02)
    data = [(x := torch.randn(16, 8), x.prod(1, keepdim=True).tanh()) for _ in range(8)]

    parts = {
        "model": model,
        "ema_model": ema_model,
        "swa_model": swa_model,
        "optimizer": optimizer,
        "scheduler": scheduler,
        "swa_scheduler": swa_scheduler,
    }
    first = checkpoints.load(args, **parts)
    for step in range(first, args.steps):
        x, y = data[step % len(data)]
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema_model.update_parameters(model)
        if step >= args.swa_start:
            swa_model.update_parameters(model)
            swa_scheduler.step()
        else:
            scheduler.step()
        print(f"step {step} loss {loss.item():.6f}")
        if step % 4 == 3:
            ema_model.eval()
            with torch.no_grad():
                print(f"ema loss {nn.functional.mse_loss(ema_model(x), y).item():.6f}")
        checkpoints.save(args, step + 1, **parts)
    update_bn(data, swa_model)
    swa_model.eval()
    with torch.no_grad():
        print(
            f"swa loss {sum(nn.functional.mse_loss(swa_model(x), y) for x, y in data).item():.6f}"
        )


if __name__ == "__main__":
    main()
