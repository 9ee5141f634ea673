# expect: SRC302@5, SRC302@6
import pandas as pd
from pandas import read_pickle

frame = pd.read_pickle("train.pkl")
other = read_pickle("test.pkl.gz")
