"""Whether a restored object is the one that was saved: every bit, every alias, every type."""

from __future__ import annotations

import argparse
import collections
import struct
import types

import numpy as np
import torch

import everybit


class Sameness:
    """Compares two object trees; remembers which objects and storages stand for which."""

    def __init__(self):
        self.partners = {}
        self.storages = {}
        self.kept = []
        self.num_tensors = 0

    def check(self, a, b, path="root"):
        """Assert that `b` is what `a` was."""
        if id(a) in self.partners:
            if not isinstance(a, (int, float, str, bytes, complex, type(None), tuple, frozenset)):
                assert self.partners[id(a)] is b, f"{path}: not the same object as before"
            return
        self.kept.append((a, b))
        if not isinstance(a, (int, float, str, bytes, complex, type(None))):
            self.partners[id(a)] = b
        if isinstance(b, everybit.Record):
            self.record(a, b, path)
            return
        assert type(a) is type(b), f"{path}: {type(a)} became {type(b)}"
        if isinstance(a, torch.Tensor):
            self.tensor(a, b, path)
        elif isinstance(a, np.ndarray):
            self.array(a, b, path)
        elif isinstance(a, np.generic):
            assert (a.dtype, a.tobytes()) == (b.dtype, b.tobytes()), path
        elif isinstance(a, dict):
            self.table(a, b, path)
        elif isinstance(a, (list, tuple, collections.deque)):
            assert len(a) == len(b), path
            for n, (x, y) in enumerate(zip(a, b, strict=True)):
                self.check(x, y, f"{path}[{n}]")
            if isinstance(a, collections.deque):
                assert a.maxlen == b.maxlen
        elif isinstance(a, (argparse.Namespace, types.SimpleNamespace)):
            self.table(vars(a), vars(b), path)
        elif isinstance(a, float):
            assert struct.pack(">d", a) == struct.pack(">d", b), path
        elif isinstance(a, complex):
            assert struct.pack(">2d", a.real, a.imag) == struct.pack(">2d", b.real, b.imag), path
        elif isinstance(a, torch.UntypedStorage):
            assert bytes(a) == bytes(b), path
        elif isinstance(a, torch.storage.TypedStorage):
            assert a.dtype == b.dtype, path
            self.storage(a._untyped_storage, b._untyped_storage, path)
        elif isinstance(a, torch.Generator):
            assert torch.equal(a.get_state(), b.get_state()), path
            assert a.initial_seed() == b.initial_seed(), path
        else:
            assert a == b, f"{path}: {a!r} became {b!r}"

    def table(self, a, b, path):
        assert len(a) == len(b), path
        for (k, v), (m, w) in zip(a.items(), b.items(), strict=True):
            assert type(k) is type(m), f"{path}: key {k!r} became {m!r}"
            assert k == m or k != k, f"{path}: key {k!r} became {m!r}"
            self.check(v, w, f"{path}[{k!r}]")
        if isinstance(a, collections.defaultdict):
            assert a.default_factory is b.default_factory
        if isinstance(a, (collections.OrderedDict, collections.Counter)):
            assert vars(a).keys() == vars(b).keys(), path
            for name, value in vars(a).items():
                self.check(value, vars(b)[name], f"{path}.{name}")

    def array(self, a, b, path):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), path
        if a.dtype.hasobject:
            for n, (x, y) in enumerate(zip(a.ravel(), b.ravel(), strict=True)):
                self.check(x, y, f"{path}[{n}]")
        else:
            assert a.tobytes() == b.tobytes(), path
            if a.flags.forc:  # pickling makes any other contiguous
                assert a.flags.f_contiguous == b.flags.f_contiguous, path

    def tensor(self, a, b, path):
        self.num_tensors += 1
        assert (a.dtype, a.layout, a.is_nested) == (b.dtype, b.layout, b.is_nested), path
        assert a.requires_grad == b.requires_grad, path
        assert vars(a).keys() == vars(b).keys(), path
        for name, value in vars(a).items():
            self.check(value, vars(b)[name], f"{path}.{name}")
        if a.is_nested:
            self.check(list(a.detach().unbind()), list(b.detach().unbind()), path)
            return
        assert a.shape == b.shape, path
        if a.layout is torch.sparse_coo:
            assert a.is_coalesced() == b.is_coalesced(), path
            self.check(a.detach()._indices(), b.detach()._indices(), path)
            self.check(a.detach()._values(), b.detach()._values(), path)
            return
        if a.layout is not torch.strided:
            row = a.layout in (torch.sparse_csr, torch.sparse_bsr)
            outer, inner = ("crow", "col") if row else ("ccol", "row")
            for part in (f"{outer}_indices", f"{inner}_indices", "values"):
                x, y = getattr(a.detach(), part)(), getattr(b.detach(), part)()
                self.check(x.clone(), y.clone(), path)
            return
        assert (a.stride(), a.storage_offset()) == (b.stride(), b.storage_offset()), path
        assert (a.is_conj(), a.is_neg()) == (b.is_conj(), b.is_neg()), path
        if a.is_quantized:
            assert a.qscheme() == b.qscheme(), path
            assert torch.equal(a.int_repr(), b.int_repr()), path
            if a.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
                assert (a.q_scale(), a.q_zero_point()) == (b.q_scale(), b.q_zero_point()), path
            else:
                assert torch.equal(a.q_per_channel_scales(), b.q_per_channel_scales()), path
                assert a.q_per_channel_axis() == b.q_per_channel_axis(), path
        if a.device.type != "meta":
            self.storage(a.untyped_storage(), b.untyped_storage(), path)

    def storage(self, a, b, path):
        """Assert equal bytes, and that what shared a storage shares one."""
        assert a.nbytes() == b.nbytes(), f"{path}: {a.nbytes()} bytes became {b.nbytes()}"
        if not a.nbytes():
            return
        known = self.storages.setdefault(a.data_ptr(), b.data_ptr())
        assert known == b.data_ptr(), f"{path}: its storage is not shared as it was"
        flat = [torch.empty(0, dtype=torch.uint8).set_(s) for s in (a, b)]
        assert torch.equal(*flat), f"{path}: bits differ"

    def record(self, a, b, path):
        kind = a if isinstance(a, type) or callable(a) else type(a)
        assert b.name.endswith(getattr(kind, "__qualname__", "")), f"{path}: {b}"
        if isinstance(b.state, dict) and hasattr(a, "__dict__"):
            for name, value in vars(a).items():
                if name in b.state:
                    self.check(value, b.state[name], f"{path}.{name}")


def assert_same(a, b):
    """Assert that a restored object is the one that was saved; return the number of tensors."""
    sameness = Sameness()
    sameness.check(a, b)
    assert len(set(sameness.storages.values())) == len(sameness.storages), "storages were merged"
    return sameness.num_tensors
