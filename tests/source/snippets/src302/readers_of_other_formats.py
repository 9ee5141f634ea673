# expect: none
import json
import pickletools

import numpy as np
import pandas as pd
import toml
import yaml
from joblib import Memory, dump


def read(path):
    pickletools.dis(open(path, "rb"))
    np.loadtxt(path)
    np.fromfile(path)
    np.load(path, allow_pickle=False)
    np.load(path, mmap_mode="r")
    pd.read_csv(path)
    pd.read_parquet(path)
    toml.load(path)
    yaml.safe_load(path)
    dump({}, path)
    return json.load(path)
