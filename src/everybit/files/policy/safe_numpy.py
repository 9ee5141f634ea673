"""Names of NumPy that are known safe in a pickle: arrays, dtypes, scalars, random states.

Source: the pickled forms of arrays, scalars, dtypes, masked and record arrays, bit generators and
`RandomState` in NumPy 1.17 to 2.4. `numpy.core` is the name of `numpy._core` before 2.0.
"""

from __future__ import annotations

from typing import Final

VERSIONS: Final = "NumPy 1.17 to 2.4"

_SCALARS: Final = (
    "bool bool_ bool8 int8 int16 int32 int64 intc intp int_ longlong uint8 uint16 uint32 uint64 "
    "uintc uintp uint ulonglong byte ubyte short ushort half single double longdouble float16 "
    "float32 float64 float96 float128 csingle cdouble clongdouble complex64 complex128 complex192 "
    "complex256 float_ complex_ str_ bytes_ unicode_ string_ void object_ datetime64 timedelta64 "
    "generic number integer floating"
)
_DTYPE_NAMES: Final = (
    "Bool Byte Bytes CLongDouble Complex128 Complex64 DateTime64 Float16 Float32 Float64 "
    "Int16 Int32 Int64 Int8 Int Long LongDouble LongLong Object Short Str String TimeDelta64 "
    "UByte UInt UInt16 UInt32 UInt64 UInt8 ULong ULongLong UShort Void"
)
_DTYPES: Final = " ".join(f"{name}DType" for name in _DTYPE_NAMES.split())
_MULTIARRAY: Final = "_reconstruct scalar"
_GENERATORS: Final = "MT19937 PCG64 PCG64DXSM Philox SFC64"

#: `{module: names}` of what is a value in a pickle, and called by none that NumPy writes.
NAMED: Final = {
    "numpy": f"recarray record matrix {_SCALARS}",
    "numpy.core.records": "recarray record",
    "numpy._core.records": "recarray record",
    "numpy.rec": "recarray record",
    "numpy.ma.core": "MaskedArray mvoid",
    "numpy.ma": "MaskedArray",
    "numpy.matrixlib.defmatrix": "matrix",
}

#: `{module: names}`
NAMES: Final = {
    "numpy": f"ndarray dtype recarray record matrix {_SCALARS}",
    "numpy.core.multiarray": _MULTIARRAY,
    "numpy._core.multiarray": _MULTIARRAY,
    "numpy.core._multiarray_umath": _MULTIARRAY,
    "numpy._core._multiarray_umath": _MULTIARRAY,
    "numpy.core.numeric": "_frombuffer",
    "numpy._core.numeric": "_frombuffer",
    "numpy.core.records": "recarray record",
    "numpy._core.records": "recarray record",
    "numpy.rec": "recarray record",
    "numpy.ma.core": "_mareconstruct MaskedArray MaskedConstant mvoid",
    "numpy.ma": "MaskedArray",
    "numpy.matrixlib.defmatrix": "matrix",
    "numpy.dtypes": _DTYPES,
    "numpy.random": f"RandomState Generator {_GENERATORS}",
    "numpy.random._pickle": (
        f"__randomstate_ctor __bit_generator_ctor __generator_ctor {_GENERATORS}"
    ),
    "numpy.random.mtrand": "RandomState",
    "numpy.random._generator": "Generator",
    "numpy.random.bit_generator": "SeedSequence __pyx_unpickle_SeedSequence",
    "numpy.random._mt19937": "MT19937",
    "numpy.random._pcg64": "PCG64 PCG64DXSM",
    "numpy.random._philox": "Philox",
    "numpy.random._sfc64": "SFC64",
    "numpy.polynomial.polynomial": "Polynomial",
}
