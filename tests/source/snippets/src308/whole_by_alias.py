# expect: SRC308@11
import torch
from torch import nn


class Net(nn.Module):
    pass


net = Net()
torch.save(net, "net.pt")
