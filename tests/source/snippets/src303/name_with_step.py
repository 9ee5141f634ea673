# expect: none  (every save has a name of its own)
import torch


def train(model, epochs):
    for epoch in range(epochs):
        advance(model)
        torch.save(model.state_dict(), f"epoch_{epoch:04d}.pt")
        torch.save(model.state_dict(), "step_{}.pt".format(epoch))
        torch.save(model.state_dict(), "model-%d.pt" % epoch)
