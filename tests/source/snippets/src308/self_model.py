# expect: SRC308@11
import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    def export(self):
        torch.save(self.model, "export.pt")
