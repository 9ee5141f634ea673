# expect: SRC302@5
import numpy

options = {"allow_pickle": True, "mmap_mode": None}
boxes = numpy.load("boxes.npy", **options)
