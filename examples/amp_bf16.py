"""Mixed precision with bfloat16: no scaler, clipping by value, gradients zeroed in place."""

import argparse

import checkpoints
import torch
from torch import nn
from torch.nn import functional as F


class Tagger(nn.Module):
    def __init__(self, vocab=50, width=32, tags=5):
        super().__init__()
        self.embed = nn.Embedding(vocab, width, padding_idx=0)
        self.gru = nn.GRU(width, width, num_layers=2, batch_first=True, dropout=0.2)
        self.out = nn.Linear(width, tags)
        self.register_buffer("prior", torch.zeros(tags))

    def forward(self, tokens):
        hidden, _ = self.gru(self.embed(tokens))
        return self.out(hidden) + self.prior


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    checkpoints.add_options(parser)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    model = Tagger()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.5, centered=True)
    first = checkpoints.load(args, model=model, optimizer=optimizer)
    for step in range(first, args.steps):
        tokens = torch.randint(1, 50, (8, 12))
        tags = tokens % 5
        optimizer.zero_grad(set_to_none=False)
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(tokens).flatten(0, 1).float(), tags.flatten())
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.05)
        optimizer.step()
        print(f"step {step} loss {loss.item():.6f}")
        checkpoints.save(args, step + 1, model=model, optimizer=optimizer)


if __name__ == "__main__":
    main()
