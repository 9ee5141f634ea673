# expect: SRC306@10
import torch


def train(reader, model, opt):
    host = torch.zeros((32, 1024)).pin_memory()
    for _ in range(1000):
        for row in range(32):
            host[row] = reader.read()
        x = host.cuda(non_blocking=True)
        opt.zero_grad()
        model(x).sum().backward()
        opt.step()
