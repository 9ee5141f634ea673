"""Generate text with a small decoder and a cache of keys and values, one token at a time."""

import argparse

import torch
from torch import nn
from torch.nn import functional as F


class Decoder(nn.Module):
    def __init__(self, vocab=64, width=32, heads=4, layers=2, context=128):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(vocab, width)
        self.register_buffer("place", torch.randn(context, width) * 0.1)
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.RMSNorm(width), nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))
            for _ in range(layers)
        )
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, tokens, cache):
        seen = 0 if cache[0] is None else cache[0][0].shape[2]
        x = self.embed(tokens) + self.place[seen : seen + tokens.shape[1]]
        for layer, (qkv, mlp) in enumerate(zip(self.qkv, self.mlp)):
            b, t, c = x.shape
            q, k, v = qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            if cache[layer] is not None:
                k = torch.cat([cache[layer][0], k], 2)
                v = torch.cat([cache[layer][1], v], 2)
            cache[layer] = (k, v)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
            x = x + y.transpose(1, 2).reshape(b, t, c)
            x = x + mlp(x)
        return self.head(x[:, -1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60, help="tokens")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    model = Decoder().eval()
    cache = [None] * len(model.qkv)
    tokens = torch.randint(64, (1, 4))
    text = tokens[0].tolist()
    with torch.inference_mode():
        for _ in range(args.steps):
            logits = model(tokens, cache)
            tokens = torch.multinomial((logits / args.temperature).softmax(-1), 1)
            text.append(tokens.item())
            print(f"token {text[-1]} of probability {logits.softmax(-1)[0, text[-1]].item():.6f}")
    print("".join(chr(32 + token) for token in text))


if __name__ == "__main__":
    main()
