# expect: none  (no pickle is read)
import json

import joblib
import msgpack
import orjson
import yaml
from pandas import read_csv, read_parquet

a = json.loads("{}")
b = msgpack.unpackb(b"")
c = orjson.loads("{}")
d = yaml.load("a: 1", Loader=yaml.SafeLoader)
e = read_parquet("a.parquet"), read_csv("a.csv")
memory = joblib.Memory("cache")
workers = joblib.Parallel(n_jobs=2)
