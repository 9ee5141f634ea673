# expect: none
from lightning.fabric import Fabric


def train(model, optimizer, loader):
    fabric = Fabric()
    model, optimizer = fabric.setup(model, optimizer)
    for index, batch in enumerate(loader):
        with fabric.no_backward_sync(model, enabled=index % 2 == 0):
            fabric.backward(model(batch))
        if index % 2:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
