"""A process that stood still is told from one that computed, and from one that ran."""

from __future__ import annotations

from everybit.guard.heartbeat import Heartbeat


class Clocks:
    def __init__(self) -> None:
        self.now = 100.0
        self.used = 5.0
        self.noted: list[float] = []
        self.heartbeat = Heartbeat(self.noted.append, 8.0, lambda: self.now, lambda: self.used)

    def go(self, seconds: float, used: float) -> None:
        self.now += seconds
        self.used += used
        self.heartbeat.look()


def test_stood_still() -> None:
    clocks = Clocks()
    clocks.go(1.0, 0.5)
    clocks.go(60.0, 0.01)
    clocks.go(1.0, 0.9)
    assert clocks.noted == [60.0]


def test_computed_or_was_only_a_little_late() -> None:
    clocks = Clocks()
    clocks.go(60.0, 58.0)  # A long call that lets no other thread run.
    clocks.go(8.9, 0.0)  # The look itself comes once a second.
    assert clocks.noted == []


def test_alone_nothing_is_looked_at() -> None:
    clocks = Clocks()
    clocks.heartbeat.start(1)
    clocks.now += 60
    clocks.heartbeat.stop()
    assert clocks.noted == []


def test_the_last_look_is_at_the_end() -> None:
    clocks = Clocks()
    clocks.heartbeat.start(2)
    clocks.now += 60
    clocks.heartbeat.stop()
    clocks.heartbeat.stop()
    assert clocks.noted == [60.0]
