# expect: SRC302@8, SRC302@9, SRC302@10
import _pickle as cPickle
import pickle as pkl
from pickle import loads as unpack


def read(data, file):
    first = pkl.loads(data)
    second = cPickle.load(file)
    return first, second, unpack(data)
