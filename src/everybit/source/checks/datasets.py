"""Dataset classes: what they keep from `__init__`, and what the workers' methods use of it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from everybit.source.checks.flow import inside, last_word, possible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from everybit.source.calls import CallSite
    from everybit.source.checks.flow import FunctionNode
    from everybit.source.module import ClassInfo, Module

_DATA: Final = "torch.utils.data"
BASES: Final = (
    f"{_DATA}.Dataset",
    f"{_DATA}.IterableDataset",
    f"{_DATA}.ConcatDataset",
    f"{_DATA}.Subset",
    "torchvision.datasets.VisionDataset",
    "torchvision.datasets.vision.VisionDataset",
    "torchvision.datasets.ImageFolder",
    "torchvision.datasets.DatasetFolder",
    "torch_geometric.data.Dataset",
)
LOADERS: Final = frozenset({f"{_DATA}.DataLoader", "torch_geometric.loader.DataLoader"})
#: Places that set one attribute, and DataLoaders, that are looked at in one file.
_MAX_SETS: Final = 256
_INITS: Final = ("__init__", "__post_init__", "__new__")
_SAMPLES: Final = ("__getitem__", "__getitems__", "__iter__", "__next__")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kept:
    """A value made in `__init__` and used where samples are made.

    Attributes:
        attribute: Under which name of `self`.
        made: The call that makes it.
        place: That call where it stands in `__init__`, else what `__init__` assigns.
        used: The first use.
        method: The method of that use.
    """

    attribute: str
    made: ast.Call
    place: ast.AST
    used: ast.Attribute
    method: str


class DatasetClass:
    """One dataset class of a module, its bases in the same file included.

    Args:
        context: The file, and what is known of it.
        info: The class.
    """

    def __init__(self, context: Context, info: ClassInfo) -> None:
        self.context = context
        self.module = context.module
        self.info = info
        self.methods = _methods(context, info)
        self.inits = self._closure(_INITS)
        self.samples = self._closure(_SAMPLES)

    @property
    def name(self) -> str:
        """The name that the class is written with."""
        return self.info.node.name

    def _closure(self, names: tuple[str, ...]) -> dict[str, FunctionNode]:
        """Return the methods of these names and all that they use of `self`."""
        found: dict[str, FunctionNode] = {}
        waiting = [name for name in names if name in self.methods]
        while waiting:
            name = waiting.pop()
            if name in found:
                continue
            found[name] = self.methods[name]
            waiting += [
                node.attr
                for node in inside([found[name]], nested=True)
                if isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "self"
                and node.attr in self.methods
                and node.attr not in _INITS
            ]
        return found

    def mentions(self, word: str) -> bool:
        """Whether a name occurs anywhere in the class."""
        return any(
            isinstance(node, ast.Name | ast.Attribute) and last_word(node) == word
            for method in self.methods.values()
            for node in inside([method], nested=True)
        )

    def kept(self, makes: Callable[[ast.expr], ast.Call | None]) -> Iterator[Kept]:
        """Yield what `__init__` keeps and samples use, where nothing makes it anew in between.

        Args:
            makes: Returns the call that makes such a value, for the expression that is
                assigned, or None.
        """
        seen: set[str] = set()
        for init in self.inits.values():
            if init.name in self.samples and init.name not in _INITS:
                continue  # made where it is first used, as well
            for node in inside([init]):
                for attribute, value in _assigned(node):
                    made = makes(value)
                    if made is None or attribute in seen or self._made_again(attribute):
                        continue
                    used = self._first_use(attribute)
                    if used is not None:
                        seen.add(attribute)
                        inside_init = any(each is init for each in self.module.ancestors(made))
                        yield Kept(
                            attribute=attribute,
                            made=made,
                            place=made if inside_init else node,
                            used=used[0],
                            method=used[1],
                        )

    def _first_use(self, attribute: str) -> tuple[ast.Attribute, str] | None:
        for name, method in self.samples.items():
            if name in self.inits:
                continue
            for node in inside([method], nested=True):
                if (
                    isinstance(node, ast.Attribute)
                    and node.attr == attribute
                    and isinstance(node.ctx, ast.Load)
                    and last_word(node.value) == "self"
                ):
                    return node, name
        return None

    def outside_init(self, attribute: str, nodes: Iterable[ast.AST]) -> bool:
        """Whether nodes concern an attribute of the class's objects, once they are made.

        What a method of another class does to its own `self` is none of this one's.
        """
        own = set(self.inits.values())
        listed = list(nodes)
        if len(listed) > _MAX_SETS:
            return True  # not looked at each: then nothing is said
        for node in listed:
            around = list(self.module.ancestors(node))
            if own.intersection(around):
                continue
            owner = next((each for each in around if isinstance(each, ast.ClassDef)), None)
            if owner is None or not _on_self(node, attribute) or owner in self.family:
                return True
        return False

    @cached_property
    def family(self) -> set[ast.ClassDef]:
        """The class, its bases and what derives from it, in the same file."""
        related = [
            each
            for each in self.context.classes.values()
            if each.name in self.info.bases or self.info.name in each.bases
        ]
        return {self.info.node, *(each.node for each in related)}

    def _made_again(self, attribute: str) -> bool:
        """Whether something else than `__init__` sets an attribute of this name."""
        if any(name in self.methods for name in ("__getstate__", "__setstate__", "__reduce__")):
            return True
        return self.outside_init(attribute, self.context.sets.get(attribute, ()))


class Context:
    """What the rules about datasets ask of a file, read once.

    Args:
        module: The file.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.classes = {each.name: each for each in module.classes}

    @cached_property
    def sets(self) -> dict[str, list[ast.AST]]:
        """Where an attribute of each name is set to something else than a constant."""
        found: dict[str, list[ast.AST]] = {}
        for node in self.module.nodes(ast.Assign, ast.AnnAssign, ast.Call):
            for name in _set_by(node):
                found.setdefault(name, []).append(node)
        return found

    @cached_property
    def loaders(self) -> list[Loader]:
        """The DataLoaders that the file makes."""
        sites = [site for site in self.module.calls() if site.name in LOADERS]
        return [_loader(site) for site in sites[:_MAX_SETS]]


def datasets(module: Module) -> Iterator[DatasetClass]:
    """Yield the dataset classes of a module."""
    context = Context(module)
    for info in module.classes:
        if info.is_a(*BASES):
            yield DatasetClass(context, info)


def _methods(context: Context, info: ClassInfo) -> dict[str, FunctionNode]:
    """Return the methods of a class, those that it has from classes of the same file too."""
    found: dict[str, FunctionNode] = {}
    for base in reversed(info.bases):
        if base in context.classes:
            found.update(context.classes[base].methods)
    return found | info.methods


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the attributes of `self` that a statement assigns, with their values."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                    for part, each in zip(target.elts, value.elts, strict=False):
                        if (name := _of_self(part)) is not None:
                            yield name, each
                elif (name := _of_self(target)) is not None:
                    yield name, value
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            if (name := _of_self(target)) is not None:
                yield name, value
        case _:
            return


def _of_self(node: ast.expr) -> str | None:
    if isinstance(node, ast.Attribute) and last_word(node.value) == "self":
        return node.attr
    return None


def _on_self(node: ast.AST, attribute: str) -> bool:
    """Whether an attribute of this name is taken of `self` only."""
    owners = [
        each.value
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute) and each.attr == attribute
    ]
    return bool(owners) and all(
        isinstance(owner, ast.Name) and owner.id == "self" for owner in owners
    )


def _set_by(node: ast.AST) -> Iterator[str]:
    """Yield the attributes that a statement sets; `self.file = None` only takes one away."""
    match node:
        case ast.Assign(targets=targets, value=value) if not isinstance(value, ast.Constant):
            for target in targets:
                for each in ast.walk(target):
                    if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store):
                        yield each.attr
        case ast.AnnAssign(target=ast.Attribute(attr=attr), value=ast.expr()):
            yield attr
        case ast.Call(func=ast.Name(id="setattr"), args=[_, ast.Constant(value=str(name)), *_]):
            yield name
        case _:
            return


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """What the DataLoaders in sight say of a dataset's workers.

    Attributes:
        seen: Whether there is a DataLoader that may take the dataset.
        some: Whether one of them may have workers.
        text: The number as it is written, "unknown" where none is in sight.
        loaders: Those that may have workers.
    """

    seen: bool
    some: bool
    text: str
    loaders: tuple[ast.Call, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Loader:
    """A DataLoader that a file makes.

    Attributes:
        call: The call.
        workers: The number of workers as it is written; None where there are surely none.
        datasets: What it may read from, by name; empty where that is not known.
    """

    call: ast.Call
    workers: str | None
    datasets: frozenset[str]


def _loader(site: CallSite) -> Loader:
    module = site.module
    given = site.argument("dataset", 0).node
    number = site.argument("num_workers", 5)
    none = number.is_absent or number.surely_falsy
    made = possible(module, given) if given is not None else ()
    return Loader(
        call=site.node,
        workers=None if none else module.source(number.node) if number.node else "unknown",
        datasets=frozenset(name for each in made for name in module.resolve_all(each)),
    )


def workers_of(dataset: DatasetClass) -> Workers:
    """Return what is known of the workers that a dataset's samples are made in."""
    loaders = dataset.context.loaders
    seen = [each for each in loaders if f"{dataset.info.name}()" in each.datasets]
    seen = seen or [each for each in loaders if not each.datasets]
    some = [each for each in seen if each.workers is not None]
    return Workers(
        seen=bool(seen),
        some=bool(some),
        text=(some[0].workers or "unknown") if some else "0" if seen else "unknown",
        loaders=tuple(each.call for each in some),
    )
