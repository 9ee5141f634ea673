# expect: SRC312@9
import torch.nn as nn


def train(net, loader, optimizer, scaler):
    net = nn.parallel.DistributedDataParallel(net)
    for batch in loader:
        optimizer.zero_grad()
        loss = net.module.forward(batch)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
