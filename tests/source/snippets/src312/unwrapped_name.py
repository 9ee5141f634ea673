# expect: SRC312@10
from torch.nn.parallel import DistributedDataParallel


def train(model, loader, optimizer):
    model = DistributedDataParallel(model)
    raw = model.module
    for batch in loader:
        optimizer.zero_grad()
        loss = raw(batch).mean()
        loss.backward()
        optimizer.step()
