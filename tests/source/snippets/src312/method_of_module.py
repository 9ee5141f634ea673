# expect: SRC312@12
from torch.nn.parallel import DistributedDataParallel


class Trainer:
    def __init__(self, model, optimizer):
        self.model = DistributedDataParallel(model)
        self.optimizer = optimizer

    def step(self, batch):
        self.optimizer.zero_grad()
        loss = self.model.module.training_loss(batch)
        loss.backward()
        self.optimizer.step()
