# expect: none  (a batch of a DataLoader with pin_memory is never written again)
from torch.utils.data import DataLoader


def train(dataset, model, opt, device):
    loader = DataLoader(dataset, pin_memory=True, num_workers=2)
    for x, y in loader:
        x = x.to(device, non_blocking=True)
        y = y.to(device, non_blocking=True)
        opt.zero_grad()
        loss = model(x, y)
        loss.backward()
        opt.step()
        print(loss.item())
