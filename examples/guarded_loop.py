"""A Guard in one's own loop: what it watches, whom it tells, phases, writes on purpose."""

import argparse
import sys

import checkpoints
import torch
from torch import nn

import everybit


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--run", help="run folder")
    parser.add_argument("--on-finding", default="heal")
    parser.add_argument("--flip-at", type=int, help="damage a weight before this step")
    parser.add_argument("--seed", type=int, default=0)
    checkpoints.add_options(parser)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    model = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 2))
    slow = torch.optim.swa_utils.AveragedModel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    table = model[3].weight.detach().numpy()  # the same memory, past torch's eyes

    def tell(finding):
        print(f"told: {finding.rule} {finding.where.parameter} at step {finding.where.step}")

    guard = everybit.Guard(
        model, slow, optimizer, run=args.run, on_finding=args.on_finding, callbacks=[tell]
    )
    with guard:
        first = checkpoints.load(args, model=model, slow=slow, optimizer=optimizer, guard=guard)
        for step in range(first, args.steps):
            if step == args.steps // 2:
                guard.phase("larger inputs")
            if step == args.flip_at:
                table.view("uint32")[1, 5] ^= 1 << 30  # what a cosmic ray does
            x = torch.randn(16, 8) * (2 if step >= args.steps // 2 else 1)
            loss = nn.functional.cross_entropy(model(x), (x.sum(1) > 0).long())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            slow.update_parameters(model)
            if step % 5 == 4:
                table.clip(-1, 1, out=table)  # a write past torch, on purpose: say so
                guard.rebaseline()
            print(f"step {step} loss {loss.item():.6f}")
            checkpoints.save(
                args, step + 1, model=model, slow=slow, optimizer=optimizer, guard=guard
            )
    print(f"verdict {guard.verdict.status}, {len(guard.findings)} findings, {guard.path}")
    return guard.verdict.exit_code()


if __name__ == "__main__":
    sys.exit(main())
