# expect: none
import torch
from learner import Learner


def train(model, loader):
    learner = Learner()
    learner.optimizer = torch.optim.Adam(model.parameters())
    for batch in loader:
        learner.update(model(batch).mean())
