"""Which nodes can be text once they are unpickled: an import by name takes nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.files.pickles.nodes import Call, CallKind, Global

if TYPE_CHECKING:
    from everybit.files.pickles.nodes import Node

#: Classes whose instances are text itself, and no subclass of it.
_TEXT: Final = frozenset({"builtins.str", "__builtin__.str", "__builtin__.unicode"})
#: What stands in every pickle of an array, and is no text and makes none.
_NO_TEXT: Final = frozenset({
    "numpy.ndarray", "numpy.dtype", "numpy.core.multiarray._reconstruct",
    "numpy._core.multiarray._reconstruct", "joblib.numpy_pickle.NumpyArrayWrapper",
    "collections.OrderedDict", "builtins.object", "__builtin__.object",
})  # fmt: skip
_NEW: Final = (CallKind.NEWOBJ, CallKind.NEWOBJ_EX)
_MAKERS: Final = frozenset({"copyreg._reconstructor", "copy_reg._reconstructor"})


def can_be_text(node: Node) -> bool:
    """Return whether an imported object, or what a call gives, can be text.

    A pickle that is read from the middle recalls other objects than it stored. An unpickler ends
    where that gives no text for a name, and so does one that goes on here.
    """
    if isinstance(node, Call):
        of = node.function if node.kind in _NEW else None
        if node.name in _MAKERS and node.arguments:
            of = node.arguments[0]
        if isinstance(of, Global):
            return of.qualified in _TEXT
        return node.name not in _NO_TEXT
    if not isinstance(node, Global):
        return True
    last = node.name.rpartition(".")[2]
    is_class = last[:1].isupper() and not last.isupper()
    return not is_class and node.qualified not in _NO_TEXT
