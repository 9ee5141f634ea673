# expect: SRC314@13
from accelerate import Accelerator
from torch.optim import AdamW


def train(model, loader):
    accelerator = Accelerator()
    optimizer = AdamW(model.parameters())
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for batch in loader:
        loss = model(batch).loss
        accelerator.backward(loss)
        optimizer.step()
