# expect: SRC302@8, SRC302@12, SRC302@13
import msgpack
import msgpack_numpy
import msgpack_numpy as m


def features(data):
    return msgpack.unpackb(data, object_hook=msgpack_numpy.decode, raw=False)


def boxes(data):
    m.patch()
    return m.unpackb(data, raw=False)
