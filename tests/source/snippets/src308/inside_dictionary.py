# expect: SRC308@7
import torch


def save(model, optimizer, epoch):
    model.eval()
    torch.save({"model": model, "optimizer": optimizer.state_dict(), "epoch": epoch}, f"{epoch}.pt")
