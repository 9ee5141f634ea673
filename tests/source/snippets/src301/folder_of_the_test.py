# expect: none
import torch


def test_training(tmp_path):
    train(tmp_path)
    path = tmp_path / "run" / "model.pt"
    assert torch.load(path, weights_only=False)
    assert torch.load(str(tmp_path.joinpath("last.pt")), map_location="cpu", weights_only=False)


def test_saved_here(tmpdir_factory):
    folder = tmpdir_factory.mktemp("models")
    assert torch.load(f"{folder}/a.pt", weights_only=False)
