"""The tables against the installed torch, of which they are facts."""

import io

import pytest
import torch
from torch import _weights_only_unpickler as torchs

from everybit.files.weights_only.allowed import ALLOWED, ALLOWED_ONCE_IMPORTED, allowed_by
from everybit.files.weights_only.names import library_of, numpy_dtype_class, renamed
from everybit.files.weights_only.opcodes import SUPPORTED
from everybit.files.weights_only.tensor_names import TENSOR_NAMES

np = pytest.importorskip("numpy")

_TABLE = torch.__version__.split(".")[:2]
only_newest = pytest.mark.skipif(_TABLE != ["2", "13"], reason="the table is of torch 2.13")


@only_newest
def test_the_allowed_names_are_torchs():
    assert frozenset(torchs._get_allowed_globals()) == ALLOWED


@only_newest
def test_the_names_of_a_tensor_are_torchs():
    own = {name for name in dir(torch.Tensor) if not name.startswith("__")}
    assert own == TENSOR_NAMES == own | {n for n in dir(torch.nn.Parameter) if n[:2] != "__"}


@only_newest
def test_the_opcodes_are_torchs():
    known = set()
    for code in range(256):
        stream = io.BytesIO(bytes((code,)) + b"\0" * 16)
        try:
            torchs.load(stream)
        except Exception as error:
            if "Unsupported operand" in str(error) and stream.tell() == 1:
                continue
        known.add(code)
    assert known - {0} == SUPPORTED
    assert 0 not in known  # the zero bytes behind the opcode stop the walk


@only_newest
def test_names_of_python_2_are_mapped_as_torch_does():
    from torch._utils import IMPORT_MAPPING, NAME_MAPPING

    for module, name in [*NAME_MAPPING, *((module, "x") for module in IMPORT_MAPPING), ("a", "b")]:
        lines = io.BytesIO(f"{module}\n{name}\n".encode())
        assert renamed(module, name) == torchs._read_global_instruction(lines.readline)


def test_older_releases_allow_less():
    assert "torch.float8_e8m0fnu" not in allowed_by("2.6")
    assert allowed_by("2.13") == ALLOWED
    assert allowed_by("2.6") < allowed_by("2.8") == ALLOWED
    with pytest.raises(ValueError, match=r"2\.5"):
        allowed_by("2.5")


def test_what_torch_allows_only_once_imported_is_not_in_the_table():
    assert not ALLOWED & set(ALLOWED_ONCE_IMPORTED)


@pytest.mark.parametrize("code", ["f8", "f4", "f2", "i8", "u1", "b1", "c16", "U3", "S2", "O8"])
def test_classes_of_numpy_dtypes(code):
    kind = type(np.dtype(code))
    assert numpy_dtype_class(code) == f"{kind.__module__}.{kind.__name__}"


def test_libraries():
    assert library_of("pytorch_lightning.callbacks.Timer") == "Lightning"
    assert library_of("argparse.Namespace") == "the Python standard library"
    assert library_of("mine.models.Net") == "mine"
