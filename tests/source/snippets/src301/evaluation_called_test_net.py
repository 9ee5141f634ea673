# expect: SRC301@6, SRC308@10
import torch


def test_net(model, loader, path):
    model.load_state_dict(torch.load(path, weights_only=False))
    return [model(batch) for batch in loader]

def test_epoch(model: torch.nn.Module, path):
    torch.save(model, path)
