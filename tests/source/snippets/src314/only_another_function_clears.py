# expect: SRC314@13
import torch


def train(model, loader):
    optimizer = torch.optim.Adam(model.parameters())
    optimizer.zero_grad()
    while True:
        for batch in loader:
            loss = model(batch)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
