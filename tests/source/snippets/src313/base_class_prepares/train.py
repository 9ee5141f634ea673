# expect: none
import torch
from base import Base


class Trainer(Base):
    def __init__(self, model, optimizer):
        self.scaler = torch.amp.GradScaler()
        self.model, self.optimizer = model, optimizer

    def step(self, batch):
        self.optimizer.zero_grad()
        self.scaler.scale(self.model(batch)).backward()
        self.prepare()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
