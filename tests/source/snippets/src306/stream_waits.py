# expect: none
import torch


def read(tensor):
    host = tensor.to("cpu", non_blocking=True)
    torch.cuda.current_stream().synchronize()
    return float(host.sum().item())
