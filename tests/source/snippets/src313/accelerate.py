# expect: none  (Accelerate unscales before it clips)
from accelerate import Accelerator


def train(model, loader, optimizer):
    accelerator = Accelerator(mixed_precision="fp16")
    model, loader, optimizer = accelerator.prepare(model, loader, optimizer)
    for batch in loader:
        optimizer.zero_grad()
        accelerator.backward(model(batch))
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
