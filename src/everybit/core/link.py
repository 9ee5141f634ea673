"""The links of the chain of custody, in causal order."""

from __future__ import annotations

from enum import StrEnum


class LinkKind(StrEnum):
    """How a link is tested: carried bits must arrive, computed ones repeat, new ones fit."""

    CARRIED = "carried"
    COMPUTED = "computed"
    NEW = "new"


class Link(StrEnum):
    """One hand-over of bits. The order of definition is the causal order within a run.

    >>> Link.BATCH.position < Link.GRAD.position
    True
    >>> Link.STATE.kind
    <LinkKind.CARRIED: 'carried'>
    """

    ENVIRONMENT = "environment"
    CODE = "code"
    FILE = "file"
    LOAD = "load"
    INIT = "init"
    BATCH = "batch"
    RNG = "rng"
    STATE = "state"
    FORWARD = "forward"
    LOSS = "loss"
    GRAD = "grad"
    REDUCE = "reduce"
    UPDATE = "update"
    SAVE = "save"
    EXPORT = "export"
    OUTPUT = "output"

    @property
    def position(self) -> int:
        """The place in the causal order, from 0; also the link's number in a run's log."""
        return _POSITIONS[self]

    @property
    def kind(self) -> LinkKind:
        """Whether the link is carried, computed or new."""
        return _KINDS[self]


_POSITIONS = {link: position for position, link in enumerate(Link)}
_NEW = {Link.ENVIRONMENT, Link.CODE, Link.INIT, Link.BATCH, Link.RNG}
_CARRIED = {Link.FILE, Link.LOAD, Link.STATE, Link.SAVE}
_KINDS = {
    link: LinkKind.NEW
    if link in _NEW
    else LinkKind.CARRIED
    if link in _CARRIED
    else LinkKind.COMPUTED
    for link in Link
}
