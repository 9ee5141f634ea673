# expect: SRC314@13
import torch


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters())

    def train_batch(self, batch):
        loss = self.model(batch).mean()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def fit(self, loader):
        for batch in loader:
            self.train_batch(batch)
