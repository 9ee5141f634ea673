# expect: none  (the wrapper's forward was called; the method only computes from its output)
from torch.nn.parallel import DistributedDataParallel as DDP


def train(model, loader, optimizer):
    model = DDP(model)
    for x, y in loader:
        optimizer.zero_grad()
        out = model(x)
        loss = model.module.criterion(out, y)
        loss.backward()
        optimizer.step()
