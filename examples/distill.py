"""Distil a teacher, which is only evaluated, into a student."""

import argparse

import checkpoints
import torch
from torch import nn
from torch.nn import functional as F


def mlp(width):
    return nn.Sequential(
        nn.Linear(20, width), nn.BatchNorm1d(width), nn.GELU(), nn.Dropout(0.1), nn.Linear(width, 6)
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--temperature", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=0)
    checkpoints.add_options(parser)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    teacher, student = mlp(128).eval(), mlp(24)
    teacher.requires_grad_(False)
    optimizer = torch.optim.Adamax(student.parameters(), lr=5e-3)
    first = checkpoints.load(args, student=student, optimizer=optimizer)
    for step in range(first, args.steps):
        x = torch.randn(32, 20)
        with torch.inference_mode():
            goal = F.log_softmax(teacher(x) / args.temperature, 1)
        goal = goal.clone()
        guess = F.log_softmax(student(x) / args.temperature, 1)
        loss = F.kl_div(guess, goal, log_target=True, reduction="batchmean")
        student.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.6f}")
        checkpoints.save(args, step + 1, student=student, optimizer=optimizer)


if __name__ == "__main__":
    main()
