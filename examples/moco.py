"""Contrastive learning with a momentum encoder and a queue of keys kept in a buffer."""

import argparse
import copy

import checkpoints
import torch
from torch import nn
from torch.nn import functional as F


class MoCo(nn.Module):
    def __init__(self, width=16, queue=64, momentum=0.9):
        super().__init__()
        self.momentum = momentum
        self.encoder_q = nn.Sequential(
            nn.Linear(32, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, width)
        )
        self.encoder_k = copy.deepcopy(self.encoder_q).requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(width, queue), dim=0))
        self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def update_keys(self, keys):
        ptr = int(self.queue_ptr)
        self.queue[:, ptr : ptr + keys.shape[0]] = keys.T
        self.queue_ptr[0] = (ptr + keys.shape[0]) % self.queue.shape[1]

    def forward(self, view_q, view_k):
        q = F.normalize(self.encoder_q(view_q), dim=1)
        with torch.no_grad():
            for slow, fast in zip(self.encoder_k.parameters(), self.encoder_q.parameters()):
                slow.data = slow.data * self.momentum + fast.data * (1 - self.momentum)
            k = F.normalize(self.encoder_k(view_k), dim=1)
        positive = (q * k).sum(1, keepdim=True)
        negative = q @ self.queue.clone().detach()
        logits = torch.cat([positive, negative], 1) / 0.2
        self.update_keys(k)
        return F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    checkpoints.add_options(parser)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    model = MoCo()
    optimizer = torch.optim.SGD(
        [p for p in model.parameters() if p.requires_grad], lr=0.03, momentum=0.9
    )
    first = checkpoints.load(args, model=model, optimizer=optimizer)
    for step in range(first, args.steps):
        x = torch.randn(16, 32)
        loss = model(x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.6f}")
        checkpoints.save(args, step + 1, model=model, optimizer=optimizer)


if __name__ == "__main__":
    main()
