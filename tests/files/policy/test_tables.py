"""The tables hold together: torch's own set is in them, and no name is on both sides."""

from __future__ import annotations

import importlib

import pytest
import torch
from torch._weights_only_unpickler import _get_allowed_globals

from everybit.files.policy import safe_libraries, safe_numpy, safe_python, safe_torch
from everybit.files.policy.dangers import _modules, _names
from everybit.files.policy.safe import SOURCES, is_safe, safe_names


def test_all_that_torch_allows_is_safe():
    missing = [name for name in _get_allowed_globals() if not is_safe(*name.rpartition(".")[::2])]
    assert missing == []


def test_no_safe_name_is_listed_as_dangerous():
    assert sorted(safe_names() & set(_names())) == []
    assert sorted(safe_names() & set(_modules())) == []


def test_every_table_says_what_it_was_made_from():
    assert set(SOURCES) == {"Python", "NumPy", "PyTorch", "libraries"}
    assert all(SOURCES.values())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("table", [safe_python.NAMES, safe_numpy.NAMES, safe_torch.NAMES])
def test_safe_names_of_what_is_installed_are_spelled_as_there(table):
    """Of each module that exists here at least one name does, so that no typing error hides."""
    for module, names in table.items():
        try:
            found = importlib.import_module(module)
        except ImportError:
            continue  # a name of another version
        first = [name.split(".")[0] for name in names.split()]
        assert any(hasattr(found, name) for name in first), module


def test_torch_dtypes_and_storages_are_all_there():
    dtypes = {str(value) for value in vars(torch).values() if isinstance(value, torch.dtype)}
    assert [name for name in dtypes if not is_safe(*name.rpartition(".")[::2])] == []


def test_libraries_are_listed_by_full_module_names():
    assert all("." in module or module == "ml_dtypes" for module in safe_libraries.NAMES)
