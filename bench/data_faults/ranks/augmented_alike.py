"""DAT403: every rank seeds with the same number, and all augment alike.

Harmless: the rank is added to the seed that samples are read with; the sampler keeps its own.

    torchrun --nproc-per-node 2 -m everybit run bench/data_faults/ranks/augmented_alike.py
"""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Noisy(Dataset):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int):
        return torch.full((8,), float(index)) + torch.randn(8), index % 4


def main(*, harmless: bool) -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    dataset = Noisy()
    loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))
    if harmless:
        torch.manual_seed(1 + dist.get_rank())
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)
        for inputs, labels in loader:
            loss = nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
