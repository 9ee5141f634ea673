# expect: none  (msgpack alone builds plain values; writing runs nothing)
import msgpack
import msgpack_numpy


def features(data, found):
    known = msgpack.unpackb(data, raw=False, object_hook=dict)
    return known, msgpack.packb(found, default=msgpack_numpy.encode)


def copied(value):
    data = msgpack.packb(value, default=msgpack_numpy.encode)
    return msgpack.unpackb(data, object_hook=msgpack_numpy.decode)
