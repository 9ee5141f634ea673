# expect: SRC301@26, SRC301@30
import functools

import torch
from tenacity import retry


def retried(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        for _ in range(3):
            try:
                return function(*args, **kwargs)
            except OSError:
                continue
        return function(*args, **kwargs)

    return inner


@retried
def fetch(path, safe=True):
    return torch.load(path, weights_only=safe)


state = fetch("a.pt", safe=False)


def main():
    return retry(reraise=True)(torch.load)("a.pt", weights_only=False)
