# expect: SRC313@8
from torch.amp import GradScaler
from torch.nn.utils import clip_grad_value_ as clip


def step(model, optimizer, loss, scaler: GradScaler):
    scaler.scale(loss).backward()
    clip(model.parameters(), 0.5)
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
