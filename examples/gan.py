"""A GAN on a ring of Gaussians: two models, two optimizers, a gradient penalty."""

import argparse
import math

import checkpoints
import torch
from torch import nn
from torch.nn import functional as F


def real_batch(size):
    angle = torch.randint(8, (size,)) * (2 * math.pi / 8)
    return torch.stack([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(size, 2)


def gradient_penalty(critic, real, fake):
    mix = torch.rand(real.shape[0], 1)
    point = (mix * real + (1 - mix) * fake).requires_grad_(True)
    (grad,) = torch.autograd.grad(critic(point).sum(), point, create_graph=True)
    return ((grad.norm(dim=1) - 1) ** 2).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--critic-steps", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    checkpoints.add_options(parser)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    netG = nn.Sequential(nn.Linear(8, 64), nn.BatchNorm1d(64), nn.ReLU(True), nn.Linear(64, 2))
    netD = nn.Sequential(
        nn.utils.parametrizations.spectral_norm(nn.Linear(2, 64)),
        nn.LeakyReLU(0.2),
        nn.Linear(64, 1),
    )
    optG = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.9))
    optD = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.9))

    first = checkpoints.load(args, netG=netG, netD=netD, optG=optG, optD=optD)
    for step in range(first, args.steps):
        for _ in range(args.critic_steps):
            real = real_batch(args.batch_size)
            with torch.no_grad():
                fake = netG(torch.randn(args.batch_size, 8))
            optD.zero_grad()
            loss_real = F.softplus(-netD(real)).mean()
            loss_real.backward()
            loss_fake = F.softplus(netD(fake)).mean()
            loss_fake.backward()
            penalty = 10 * gradient_penalty(netD, real, fake)
            penalty.backward()
            optD.step()
        optG.zero_grad()
        loss_g = F.softplus(-netD(netG(torch.randn(args.batch_size, 8)))).mean()
        loss_g.backward()
        optG.step()
        loss_d = loss_real.item() + loss_fake.item() + penalty.item()
        print(f"step {step} loss_d {loss_d:.6f} loss_g {loss_g.item():.6f}")
        checkpoints.save(args, step + 1, netG=netG, netD=netD, optG=optG, optD=optD)


if __name__ == "__main__":
    main()
