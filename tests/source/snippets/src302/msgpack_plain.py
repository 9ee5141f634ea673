# expect: none  (msgpack alone builds plain values; writing runs nothing)
import msgpack
import msgpack_numpy


def features(data, found):
    known = msgpack.unpackb(data, raw=False, object_hook=dict)
    return known, msgpack.packb(found, default=msgpack_numpy.encode)
