"""Classify small images: batch norm, dropout, SGD with momentum, a schedule, an evaluation."""

import argparse

import checkpoints
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


def make_images(count, classes=10, size=12):
    prototypes = torch.randn(classes, 1, size, size)
    labels = torch.randint(classes, (count,))
    return TensorDataset(prototypes[labels] + 0.7 * torch.randn(count, 1, size, size), labels)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(32)
        self.drop = nn.Dropout(0.25)
        self.fc = nn.Linear(32 * 3 * 3, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x)), inplace=True), 2)
        return self.fc(self.drop(x.flatten(1)))


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    correct = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    model.train()
    return correct / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--eval-every", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    checkpoints.add_options(parser)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    data = make_images(320)
    train, test = torch.utils.data.random_split(data, [256, 64])
    loader = DataLoader(
        train, args.batch_size, shuffle=True, drop_last=True, num_workers=args.workers
    )
    test_loader = DataLoader(test, 32)
    model = Net()
    optimizer = torch.optim.SGD(
        model.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4, nesterov=True
    )
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=args.steps + 1)
    step = checkpoints.load(args, model=model, optimizer=optimizer, scheduler=scheduler)
    while step < args.steps:
        for images, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels, label_smoothing=0.1)
            loss.backward()
            optimizer.step()
            scheduler.step()
            step += 1
            print(f"step {step} loss {loss.item():.6f} lr {scheduler.get_last_lr()[0]:.5f}")
            if step % args.eval_every == 0:
                print(f"accuracy {evaluate(model, test_loader):.3f}")
            checkpoints.save(args, step, model=model, optimizer=optimizer, scheduler=scheduler)
            if step == args.steps:
                break


if __name__ == "__main__":
    main()
