# expect: none  (the helper that gets the scaler unscales)
import torch


def prepare(scaler, optimizer):
    scaler.unscale_(optimizer)


def train(model, loader, optimizer):
    scaler = torch.amp.GradScaler("cuda")
    for batch in loader:
        optimizer.zero_grad()
        scaler.scale(model(batch)).backward()
        prepare(scaler, optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
