# expect: none  (a file in a test's own folder)
import torch


def test_reads_last(tmp_path):
    path = tmp_path / "last.pt"
    torch.save({"a": torch.ones(2)}, path)
    assert torch.load(path)["a"].sum() == 2
