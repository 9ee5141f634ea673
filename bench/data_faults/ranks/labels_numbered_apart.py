"""DAT414: each rank numbers the classes as its own disk lists them.

Harmless: they are sorted first.

    torchrun --nproc-per-node 2 -m everybit run bench/data_faults/ranks/labels_numbered_apart.py
"""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

LISTED = (["cat", "cow", "dog", "fox"], ["fox", "cat", "dog", "cow"])


class Animals(Dataset):
    def __init__(self, names: list[str]) -> None:
        self.class_to_idx = {name: number for number, name in enumerate(names)}
        self.inputs = torch.arange(64.0).view(64, 1).expand(64, 8) / 64

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int):
        return self.inputs[index].clone(), self.class_to_idx[LISTED[0][index % 4]]


def main(*, harmless: bool) -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    listed = LISTED[dist.get_rank()]
    dataset = Animals(sorted(listed) if harmless else listed)
    model = DistributedDataParallel(nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset, shuffle=False))
    for inputs, labels in loader:
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
