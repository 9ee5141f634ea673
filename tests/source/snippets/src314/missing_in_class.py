# expect: SRC314@13
import torch


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters())

    def train(self, loader):
        for batch in loader:
            self.model(batch).mean().backward()
            self.optimizer.step()
