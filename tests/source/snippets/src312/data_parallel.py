# expect: none  (DataParallel reduces nothing between processes)
import torch


def train(model, loader, optimizer):
    model = torch.nn.DataParallel(model)
    for x in loader:
        optimizer.zero_grad()
        loss = model.module(x).sum()
        loss.backward()
        optimizer.step()
