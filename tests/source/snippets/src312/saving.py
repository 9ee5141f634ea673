# expect: none  (state_dict and saving need the inner module)
import torch
from torch.nn.parallel import DistributedDataParallel


def train(model, loader, optimizer, save):
    model = DistributedDataParallel(model)
    for batch in loader:
        optimizer.zero_grad()
        loss = model(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.module.parameters(), 1.0)
        optimizer.step()
    save(model.module.state_dict())
    model.module.load_state_dict(model.module.state_dict())
