"""Train with Accelerate: prepare, accumulate, clip, save and load the whole state."""

import argparse
import os
import tempfile

import checkpoints
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--mixed-precision", default="no", choices=["no", "bf16"])
    parser.add_argument("--seed", type=int, default=0)
    checkpoints.add_options(parser)
    args = parser.parse_args()
    set_seed(args.seed)

    accelerator = Accelerator(
        cpu=True, gradient_accumulation_steps=2, mixed_precision=args.mixed_precision
    )
    x = torch.randn(256, 16)
    data = DataLoader(TensorDataset(x, x[:, :4].argmax(1)), batch_size=8, shuffle=True)
    model = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=args.steps)
    model, optimizer, data, scheduler = accelerator.prepare(model, optimizer, data, scheduler)

    accelerator.register_for_checkpointing(*checkpoints.BESIDE.values())
    step, rest = 0, data
    if args.resume:
        step = max(int(name.removeprefix("step_")) for name in os.listdir(args.checkpoint))
        accelerator.load_state(os.path.join(args.checkpoint, f"step_{step}"))
        rest = accelerator.skip_first_batches(data, 2 * step % len(data))
    with tempfile.TemporaryDirectory() as folder:
        while step < args.steps:
            for inputs, labels in rest:
                with accelerator.accumulate(model):
                    loss = nn.functional.cross_entropy(model(inputs), labels)
                    accelerator.backward(loss)
                    if accelerator.sync_gradients:
                        accelerator.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    scheduler.step()
                    optimizer.zero_grad()
                if not accelerator.sync_gradients:
                    continue
                step += 1
                accelerator.print(f"step {step} loss {loss.item():.6f}")
                if step == 3:
                    accelerator.save_state(os.path.join(folder, "state"))
                if args.checkpoint and step % args.save_every == 0:
                    accelerator.save_state(os.path.join(args.checkpoint, f"step_{step}"))
                if step == 5:
                    accelerator.load_state(os.path.join(folder, "state"))
                if step == args.steps:
                    break
            rest = data


if __name__ == "__main__":
    main()
