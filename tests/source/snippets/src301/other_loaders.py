# expect: none
import json
import tomllib

import yaml
from mylib import torch_like
from mylib import load as load


class Loader:
    def load(self, path, weights_only=True):
        return json.load(path)


def read(path, loader: Loader, model):
    yaml.load(path, Loader=yaml.SafeLoader)
    tomllib.load(path)
    json.loads("{}")
    loader.load(path)
    torch_like.load(path)
    load(path)
    model.load(path)
    return Loader().load(path)
