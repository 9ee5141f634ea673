"""The error for what is not proved to succeed in torch."""

from __future__ import annotations


class UnprovedError(Exception):
    """Torch raises here, or at least it is not proved that it does not.

    Args:
        reason: Why, as a clause without subject.
        proved: Torch certainly raises.
        usual: Torch itself writes such files.
    """

    def __init__(self, reason: str, *, proved: bool = False, usual: bool = False) -> None:
        super().__init__(reason)
        self.proved = proved
        self.usual = usual
