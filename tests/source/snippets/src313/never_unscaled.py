# expect: SRC313@13
import torch
from torch.cuda.amp import GradScaler, autocast


def train(model, loader, optimizer):
    scaler = GradScaler()
    for x, y in loader:
        optimizer.zero_grad()
        with autocast():
            loss = model(x, y)
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
