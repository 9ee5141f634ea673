# expect: none  (the file was made a line above by the same function)
import torch


def test_module_survives_a_save(tmp_path):
    path = tmp_path / "module.pt"
    torch.save(torch.nn.Linear(2, 2), path)
    again = torch.load(path, weights_only=False)
    assert again.weight.shape == (2, 2)
