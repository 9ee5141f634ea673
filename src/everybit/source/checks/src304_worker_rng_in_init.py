"""SRC304: a random generator of a dataset that every worker has a copy of, in the same state."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Certainty, Severity
from everybit.source.checks.datasets import DatasetClass, Kept, Workers, datasets, workers_of
from everybit.source.checks.flow import inside, last_word, possible, words_of
from everybit.source.checks.reach import Reach
from everybit.source.hit import Hit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.source.module import Module

RULE_ID: Final = "SRC304"
WORDS: Final = ("Dataset", "ImageFolder")
NEEDS: Final = ("default_rng|Generator|RandomState|Random", r"(?:\b|\\n)class\b")
_GENERATORS: Final = frozenset(
    {
        "numpy.random.default_rng",
        "numpy.random.Generator",
        "numpy.random.RandomState",
        "random.Random",
        "torch.Generator",
    }
)
_CONSTRUCTORS: Final = tuple(name.rpartition(".")[2] for name in sorted(_GENERATORS))
#: Methods that give a generator another state.
_SEEDS: Final = frozenset(
    {"seed", "manual_seed", "set_state", "setstate", "bit_generator", "spawn"}
)
#: Methods of a generator that give it back.
_CHAINED: Final = frozenset({"manual_seed", "set_state"})
#: What a worker_init_fn speaks of when it reaches the dataset.
_REACHES: Final = frozenset({"get_worker_info", "dataset", "rng", "_rng", "generator"})


def check(module: Module) -> Iterator[Hit]:
    """Yield one hit for each generator that all workers would share the numbers of."""
    if not any(word in module.text for word in _CONSTRUCTORS):
        return
    seeding = _seeding(module)
    reach = Reach(module)
    for dataset in datasets(module):
        if dataset.mentions("get_worker_info"):
            continue  # it knows of workers, and seeds or splits by them
        workers = None
        for kept in dataset.kept(lambda value: _generator(module, value)):
            if dataset.outside_init(kept.attribute, seeding.get(kept.attribute, ())):
                continue
            workers = workers or workers_of(dataset)
            if workers.seen and not workers.some:
                continue
            if _seeded_by_workers(reach, workers):
                continue
            yield _hit(module, dataset, kept, workers)


def _generator(module: Module, value: ast.expr) -> ast.Call | None:
    """Return the call that makes a generator, of the expression that is assigned."""
    for each in possible(module, value):
        call = each
        while (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr in _CHAINED
        ):
            call = call.func.value
        if isinstance(call, ast.Call) and module.resolve(call.func) in _GENERATORS:
            return call
    return None


def _seeding(module: Module) -> dict[str, list[ast.AST]]:
    """Return where something of each name is given another state: `self.rng.seed(...)`."""
    found: dict[str, list[ast.AST]] = {}
    for node in module.nodes(ast.Attribute):
        if node.attr in _SEEDS:
            found.setdefault(last_word(node.value), []).append(node)
    return found


def _seeded_by_workers(reach: Reach, workers: Workers) -> bool:
    """Whether a DataLoader has a worker_init_fn that may reach the dataset's generator."""
    for loader in workers.loaders:
        for keyword in loader.keywords:
            if keyword.arg is None:
                return True  # what is in the dictionary is not known
            if keyword.arg != "worker_init_fn":
                continue
            if isinstance(keyword.value, ast.Constant) and keyword.value.value is None:
                continue
            functions = reach.functions(last_word(keyword.value))
            if not functions or any(
                word in _REACHES
                for function in functions
                for node in inside([function], nested=True)
                for word in words_of(node)
            ):
                return True
    return False


def _hit(module: Module, dataset: DatasetClass, kept: Kept, workers: Workers) -> Hit:
    made = module.source(kept.made.func) or last_word(kept.made.func)
    name = f"self.{kept.attribute}"
    again = "each epoch" if "persistent_workers" not in module.text else "each new set of workers"
    return Hit(
        rule=RULE_ID,
        node=kept.place,
        message=(
            f"`{name}` of `{dataset.name}` is made once, in `__init__`, and `{kept.method}` draws "
            f"from it: every DataLoader worker draws the same numbers, and {again} begins with "
            "them again"
        ),
        evidence={
            "class": dataset.name,
            "attribute": kept.attribute,
            "made_by": made,
            "method": kept.method,
            "used_line": kept.used.lineno,
            "workers": workers.text,
        },
        severity=None if workers.some else Severity.NOTE,
        certainty=None if workers.some else Certainty.WEAK,
    )
