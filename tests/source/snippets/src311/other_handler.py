# expect: none  (no load of torch or pickle)
import json

import yaml


def load(path):
    try:
        return json.load(open(path))
    except ValueError:
        return yaml.safe_load(open(path))
