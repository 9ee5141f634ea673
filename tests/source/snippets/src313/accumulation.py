# expect: SRC313@17
import torch
from torch import nn


class Trainer:
    def __init__(self, model, optimizer):
        self.model = model
        self.optimizer = optimizer
        self.scaler = torch.amp.GradScaler("cuda")

    def run(self, loader):
        for i, batch in enumerate(loader):
            loss = self.model(batch) / 4
            self.scaler.scale(loss).backward()
            if (i + 1) % 4 == 0:
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.optimizer.zero_grad(set_to_none=True)
