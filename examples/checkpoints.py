"""Checkpoints of the examples: `--checkpoint FILE` writes them, `--resume` goes on from one."""

import os

import torch

#: What is saved beside a script's own parts, and loaded last: anything with a state_dict.
BESIDE = {}


def add_options(parser):
    parser.add_argument("--checkpoint", help="where checkpoints are written")
    parser.add_argument("--save-every", type=int, default=10, help="steps between checkpoints")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint")


def save(args, step, **parts):
    """Save what is there after so many steps; a kill leaves this checkpoint or the one before."""
    if args.checkpoint and step % args.save_every == 0:
        states = {name: part.state_dict() for name, part in (parts | BESIDE).items()}
        torch.save(states | {"step": step}, args.checkpoint + ".new")
        os.replace(args.checkpoint + ".new", args.checkpoint)


def load(args, **parts):
    """Load a checkpoint, if one is asked for; return the steps that were done before."""
    if not args.resume:
        return 0
    states = torch.load(args.checkpoint, weights_only=True)
    for name, part in (parts | BESIDE).items():
        part.load_state_dict(states[name])
    return states["step"]


def step_of(args):
    """Return the steps that were done before, without loading anything else."""
    return torch.load(args.checkpoint, weights_only=True)["step"] if args.resume else 0
