"""A whole file, as `torch.load(weights_only=True, map_location="cpu")` reads it.

Which reader torch takes depends on the first four bytes: an archive, or the format before 1.6,
for which it first asks whether the file is a tar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.files.damage import MalformedError, TooLargeError
from everybit.files.weights_only.acceptance import Acceptance, Refusal
from everybit.files.weights_only.seen import Seen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everybit.files.pickles.nodes import Pickle
    from everybit.files.source import ByteSource
    from everybit.files.weights_only.keys import Hung

_MAX_REFUSALS: Final = 1000
_SAFETENSORS: Final = ".safetensors"
_BY_ITS_NAME: Final = "is called .safetensors, by which newer torch hands it to another reader"
_ZIP_MARK: Final = b"PK\x03\x04"
#: A tar has one header at least.
TAR_BLOCK_BYTES: Final = 512


class Loaded:
    """What torch does with a file.

    Attributes:
        acceptance: Whether it accepts it.
        kind: "zip", "torchscript", "tar", "legacy", "pickle"; "" where it is no file of torch's.
        member: The archive member of the pickle that refusals speak of.
        keys: Under which keys of the object each refused name hangs, the first few.
    """

    __slots__ = ("acceptance", "keys", "kind", "member")

    def __init__(
        self,
        acceptance: Acceptance,
        kind: str,
        member: str | None,
        keys: Mapping[str, tuple[str, ...]],
    ) -> None:
        self.acceptance = acceptance
        self.kind = kind
        self.member = member
        self.keys = keys


def load_as_torch(source: ByteSource, seen: Seen | None = None) -> Loaded:
    """Return what torch does with a file; nothing in it is executed.

    Args:
        source: The file.
        seen: What was read of it already.
    """
    seen = seen or Seen()
    member, pickled, start = None, b"", -1
    if source.read(0, len(_ZIP_MARK)) == _ZIP_MARK:
        from everybit.files.weights_only.archives import read_torch_archive

        kind, acceptance, member, pickled = read_torch_archive(source, seen)
    elif (refused := _as_tar(source)) is not None:
        kind, acceptance = "tar", refused
    else:
        from everybit.files.weights_only.legacy import read_legacy

        kind, acceptance, start = read_legacy(source, seen)
    if kind and source.path.name.endswith(_SAFETENSORS):
        told = (*acceptance.refusals, Refusal(reason=_BY_ITS_NAME, proved=False))
        acceptance = acceptance.refused(told)
    keys: dict[str, tuple[str, ...]] = {}
    if kind and not acceptance.accepted and (pickled or start >= 0):
        try:
            acceptance, keys = _told(acceptance, _whole(source, pickled, start, seen))
        except TooLargeError:
            pass
        except MalformedError:
            # Another unpickler fails on it too: that is damage, and told as such.
            acceptance = acceptance.marked(damaged=True)
    return Loaded(acceptance, kind, member, keys)


def _as_tar(source: ByteSource) -> Acceptance | None:
    if source.size < TAR_BLOCK_BYTES:
        return None
    from everybit.files.weights_only.tars import read_as_tar

    return read_as_tar(source)


def _whole(source: ByteSource, pickled: bytes, start: int, seen: Seen) -> Pickle:
    known = seen.whole if pickled else seen.at(start, source.size)
    if known is not None and not known.start:  # its offsets are those of its own bytes
        return known
    if pickled:
        from everybit.files.pickles.opcodes import interpret

        return interpret(pickled)
    from everybit.files.pickles.stream import read_pickle_at

    return read_pickle_at(source, start, "it").pickle


def _told(acceptance: Acceptance, pickle: Pickle) -> tuple[Acceptance, dict[str, tuple[str, ...]]]:
    """Return the refusals with their keys, and with the names behind the place torch stops at."""
    if not pickle.globals and not pickle.calls:
        return acceptance, {}  # no name and no call hangs under any key
    from everybit.files.weights_only.allowed import ALLOWED
    from everybit.files.weights_only.keys import find_hung
    from everybit.files.weights_only.names import library_of, renamed

    told = list(acceptance.refusals)
    seen = {refusal.name for refusal in told}
    for node in pickle.globals:
        name = ".".join(renamed(node.module, node.name))
        if name not in ALLOWED and name not in seen and len(told) < _MAX_REFUSALS:
            seen.add(name)
            told.append(
                Refusal(
                    reason="is not among the names that torch allows",
                    name=name,
                    library=library_of(name),
                    position=node.position,
                    by_name=True,
                )
            )
    hung = find_hung(pickle)
    keyed = tuple(_with_key(refusal, hung) for refusal in told)
    keys = {name: tuple(keys) for name, keys in hung.by_name.items() if name in seen}
    return acceptance.refused(keyed), keys


def _with_key(refusal: Refusal, hung: Hung) -> Refusal:
    key = hung.by_position.get(refusal.position)
    if key is None:
        key = next(iter(hung.by_name.get(refusal.name, ())), "")
    return refusal.under(key)
