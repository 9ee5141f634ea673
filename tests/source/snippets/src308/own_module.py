# expect: SRC308@13
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)


net = Net()
torch.save(net, "net.pt")
