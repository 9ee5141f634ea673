# expect: none
import torch
from torch.nn.utils import clip_grad_norm_


class Trainer:
    def __init__(self, model, optimizer):
        self.scaler = torch.amp.GradScaler()
        self.model, self.optimizer = model, optimizer

    def prepare(self):
        self.scaler.unscale_(self.optimizer)

    def step(self, batch):
        self.optimizer.zero_grad()
        self.scaler.scale(self.model(batch)).backward()
        self.prepare()
        clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
