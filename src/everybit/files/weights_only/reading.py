"""One pickle, as torch's weights_only unpickler reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.files.pickles.reader import PickleEndsError
from everybit.files.weights_only.acceptance import Acceptance, Refusal
from everybit.files.weights_only.quick import proves
from everybit.files.weights_only.storages import ZipStorages

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.files.pickles.nodes import Pickle


def read_as_torch(
    data: bytes,
    *,
    storages: Callable[[str], int | None] | None = None,
    known: Pickle | None = None,
) -> Acceptance:
    """Return whether torch's weights_only unpickler is proved to accept a pickle.

    Args:
        data: The pickle, as it stands in a torch archive.
        storages: Gives the length in bytes of the record of a storage's key, None where there is
            none; None where there are no storages at all.
        known: The same pickle as it was read already, whole.
    """
    if known is not None and storages is not None and proves(known, ZipStorages(storages)):
        return Acceptance(accepted=True, end=known.end - known.start)
    from everybit.files.weights_only.opcodes import run
    from everybit.files.weights_only.unpickler import TorchMachine

    machine = TorchMachine(data, ZipStorages(storages) if storages is not None else None)
    try:
        run(machine)
    except PickleEndsError as error:
        reason = error.damage.message.removeprefix("the pickle ")
        cut = Refusal(reason=reason, position=len(data))
        return Acceptance(accepted=False, refusals=(*machine.refusals, cut), damaged=True)
    return Acceptance(
        accepted=not machine.refusals, refusals=tuple(machine.refusals), end=machine.at
    )
