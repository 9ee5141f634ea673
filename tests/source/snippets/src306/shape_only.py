# expect: none  (shapes are not values)
import torch


def offload(x):
    host = x.to("cpu", non_blocking=True)
    print(host.shape, host.dtype)
    return host
