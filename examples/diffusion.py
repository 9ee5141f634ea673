"""Denoising diffusion on points: weights shared through a shadow copy, sampling as it trains."""

import argparse

import checkpoints
import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self, times=50, width=64):
        super().__init__()
        self.register_buffer("betas", torch.linspace(1e-4, 0.05, times))
        self.register_buffer("alphas_bar", torch.cumprod(1 - self.betas, 0))
        self.time = nn.Embedding(times, width)
        self.inp = nn.utils.parametrizations.weight_norm(nn.Linear(2, width))
        self.body = nn.Sequential(
            nn.GroupNorm(4, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU()
        )
        self.out = nn.Linear(width, 2)

    def forward(self, x, t):
        return self.out(self.body(self.inp(x) + self.time(t)))


class EMA:
    def __init__(self, model, decay=0.95):
        self.decay = decay
        self.shadow = {n: p.detach().clone() for n, p in model.named_parameters()}

    def update(self, model):
        for n, p in model.named_parameters():
            self.shadow[n].mul_(self.decay).add_(p.detach(), alpha=1 - self.decay)

    def state_dict(self):
        return self.shadow

    def load_state_dict(self, state):
        self.shadow = state

    def swap(self, model):
        for n, p in model.named_parameters():
            p.data, self.shadow[n] = self.shadow[n], p.data


@torch.no_grad()
def sample(model, count):
    x = torch.randn(count, 2)
    for t in reversed(range(len(model.betas))):
        beta, bar = model.betas[t], model.alphas_bar[t]
        noise = model(x, torch.full((count,), t))
        x = (x - beta / (1 - bar).sqrt() * noise) / (1 - beta).sqrt()
        if t:
            x = x + beta.sqrt() * torch.randn_like(x)
    return x


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--sample-every", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    checkpoints.add_options(parser)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    model = Denoiser()
    ema = EMA(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, foreach=True)
    first = checkpoints.load(args, model=model, ema=ema, optimizer=optimizer)
    for step in range(first + 1, args.steps + 1):
        angle = torch.rand(32) * 6.283
        x = torch.stack([angle.cos(), angle.sin()], 1)
        t = torch.randint(50, (32,))
        noise = torch.randn_like(x)
        bar = model.alphas_bar[t].unsqueeze(1)
        loss = nn.functional.mse_loss(model(bar.sqrt() * x + (1 - bar).sqrt() * noise, t), noise)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        ema.update(model)
        print(f"step {step} loss {loss.item():.6f}")
        if step % args.sample_every == 0:
            ema.swap(model)
            print(f"radius {sample(model, 16).norm(dim=1).mean().item():.4f}")
            ema.swap(model)
        checkpoints.save(args, step, model=model, ema=ema, optimizer=optimizer)


if __name__ == "__main__":
    main()
