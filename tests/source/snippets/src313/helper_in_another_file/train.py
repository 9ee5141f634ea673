# expect: none
import torch
from tools import prepare

scaler = torch.amp.GradScaler()


def step(model, optimizer, batch):
    optimizer.zero_grad()
    scaler.scale(model(batch)).backward()
    prepare(scaler, optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
