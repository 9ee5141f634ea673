"""Skip-gram embeddings: sparse gradients and SparseAdam beside a dense optimizer."""

import argparse

import checkpoints
import torch
from torch import nn
from torch.nn import functional as F


class SkipGram(nn.Module):
    def __init__(self, vocab=200, width=16):
        super().__init__()
        self.words = nn.Embedding(vocab, width, sparse=True)
        self.contexts = nn.Embedding(vocab, width, sparse=True)
        self.scale = nn.Linear(width, width, bias=False)
        self.register_buffer("frequency", 1.0 / torch.arange(1, vocab + 1))

    def forward(self, word, context, noise):
        w = self.scale(self.words(word))
        good = F.logsigmoid((w * self.contexts(context)).sum(1))
        bad = F.logsigmoid(-(self.contexts(noise) @ w.unsqueeze(2)).squeeze(2)).sum(1)
        return -(good + bad).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    checkpoints.add_options(parser)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    model = SkipGram()
    sparse = torch.optim.SparseAdam([model.words.weight, model.contexts.weight], lr=1e-2)
    dense = torch.optim.Adam(model.scale.parameters(), lr=1e-3)
    first = checkpoints.load(args, model=model, sparse=sparse, dense=dense)
    for step in range(first, args.steps):
        word = torch.multinomial(model.frequency, 32, replacement=True)
        noise = torch.multinomial(model.frequency, 32 * 5, replacement=True).view(32, 5)
        loss = model(word, (word + 1) % 200, noise)
        sparse.zero_grad()
        dense.zero_grad()
        loss.backward()
        sparse.step()
        dense.step()
        print(f"step {step} loss {loss.item():.6f}")
        checkpoints.save(args, step + 1, model=model, sparse=sparse, dense=dense)


if __name__ == "__main__":
    main()
