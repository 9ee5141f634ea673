# expect: SRC308@7
import torch


def save(net, epoch):
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    torch.save({"net": net.state_dict(), "optimizer": optimizer, "epoch": epoch}, f"{epoch}.pt")
