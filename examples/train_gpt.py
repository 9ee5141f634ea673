"""Train a character GPT: tied embeddings, gradient accumulation, clipping by norm, cosine decay."""

import argparse
import math
import os

import checkpoints
import torch
from torch import nn
from torch.nn import functional as F


def load_text():
    with open(os.__file__, encoding="utf-8") as file:
        return torch.tensor(list(file.read().encode()), dtype=torch.long)


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.ln1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.ln2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, vocab=256, width=64, heads=4, layers=2, context=32, dropout=0.1):
        super().__init__()
        self.context = context
        self.wte = nn.Embedding(vocab, width)
        self.wpe = nn.Embedding(context, width)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocab, bias=False)
        self.lm_head.weight = self.wte.weight
        self.register_buffer("positions", torch.arange(context), persistent=False)
        self.apply(self.init_weights)

    @staticmethod
    def init_weights(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, idx, targets=None):
        x = self.drop(self.wte(idx) + self.wpe(self.positions[: idx.shape[1]]))
        for block in self.blocks:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    @torch.no_grad()
    def generate(self, idx, count):
        for _ in range(count):
            logits, _ = self(idx[:, -self.context :])
            idx = torch.cat([idx, torch.multinomial(logits[:, -1].softmax(-1), 1)], 1)
        return idx


def get_lr(step, args):
    if step < args.warmup:
        return args.lr * (step + 1) / args.warmup
    return 0.5 * args.lr * (1 + math.cos(math.pi * step / args.steps))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--accumulate", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    checkpoints.add_options(parser)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    text = load_text()
    model = GPT()
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
        lr=args.lr,
        betas=(0.9, 0.95),
    )

    def get_batch():
        at = torch.randint(len(text) - model.context - 1, (args.batch_size,))
        x = torch.stack([text[i : i + model.context] for i in at])
        y = torch.stack([text[i + 1 : i + 1 + model.context] for i in at])
        return x, y

    first = checkpoints.load(args, model=model, optimizer=optimizer)
    for step in range(first, args.steps):
        for group in optimizer.param_groups:
            group["lr"] = get_lr(step, args)
        total = 0.0
        for _ in range(args.accumulate):
            x, y = get_batch()
            _, loss = model(x, y)
            loss = loss / args.accumulate
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step} loss {total:.6f} norm {norm:.4f}")
        checkpoints.save(args, step + 1, model=model, optimizer=optimizer)
    model.eval()
    print(bytes(model.generate(torch.zeros(1, 1, dtype=torch.long), 16)[0].tolist()))


if __name__ == "__main__":
    main()
