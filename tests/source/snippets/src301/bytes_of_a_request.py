# expect: SRC301@10
import io

import requests
import torch


def fetch(url):
    data = requests.get(url, timeout=10).content
    return torch.load(io.BytesIO(data), weights_only=False)
