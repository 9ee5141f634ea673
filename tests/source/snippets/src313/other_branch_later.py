# expect: none  (with a scaler, the clip is preceded by unscale_)
import torch
from torch.cuda.amp import GradScaler


def update(model, optimizer, loss, scaler: GradScaler, use_amp: bool):
    if use_amp:
        scaler.scale(loss).backward()
    else:
        loss.backward()
    if use_amp:
        scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if use_amp:
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
    optimizer.zero_grad()
