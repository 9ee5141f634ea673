"""What is written while samples are read, and what is set between."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import torch

from everybit.probe.contents import survey
from everybit.probe.contents.changes import Changes, changes_of
from everybit.probe.contents.labels import Labels


class Holder:
    def __init__(self, **attributes):
        vars(self).update(attributes)


def held(**attributes):
    found = Holder(ids=torch.zeros(8), rows=np.zeros(8), epoch=0, inner=Holder(p=0.5), **attributes)
    changes = Changes()
    changes.watch(survey(found))
    changes.begin()
    changes.end()
    return found, changes


def test_nothing_is_told_where_nothing_happens():
    found, changes = held()
    for _ in range(5):
        changes.begin()
        found.ids.sum()
        changes.end()
    assert changes.version == (0, 0)
    assert not changes.within
    assert not changes.between


def test_what_the_program_sets_between():
    found, changes = held()
    found.inner.p = 0.25
    found.ids[3] = 1
    found.rows[2] = 1
    changes.begin()
    assert changes.version == (1, 1)
    assert changes.last_set == ("dataset.inner.p", "dataset.ids", "dataset.rows")
    assert set(changes.between) == {"dataset.ids", "dataset.rows"}
    changes.end()
    found.epoch += 1
    changes.begin()
    assert (changes.version, changes.last_set) == ((2, 1), ("dataset.epoch",))
    changes.end()
    found.rows[2] = 2  # Bytes of arrays are read for the first batches only.
    changes.begin()
    changes.end()
    found.ids = torch.zeros(8)
    changes.begin()
    assert (changes.version, changes.last_set) == ((2, 2), ("dataset.ids",))
    assert not changes.within


def test_what_is_written_while_samples_are_read():
    found, changes = held(num_read=0)
    changes.begin()
    found.num_read += 1
    found.ids.mul_(2)
    found.rows += 1
    changes.end()
    changes.begin()
    assert set(changes.within) == {"dataset.ids", "dataset.rows"}
    assert changes.version == (0, 0)


def test_a_new_pass_takes_nothing_for_set():
    found, changes = held()
    found.more = 3
    changes.begin()
    changes.watch(survey(found))
    changes.begin()
    assert changes.version == (1, 0)


def test_one_for_each_data_set_and_none_is_kept():
    first, second = Holder(), Holder()
    assert changes_of(first) is changes_of(first)
    assert changes_of(first) is not changes_of(second)
    changes_of(first).watch(survey(first))
    reference = weakref.ref(first)
    del first
    gc.collect()
    assert reference() is None


def test_a_list_of_labels_in_another_order():
    first = torch.arange(40) % 3
    for now, told in (
        (first.flip(0), True),
        (first.tolist()[::-1], True),
        (first, False),
        ((torch.arange(40) * 7) % 4, False),
        (torch.cat([first[:1] + 1, first[1:2] - 1, first[2:]]), False),
    ):
        labels = Labels()
        labels.look(first)
        labels.look(now)
        assert labels.are_permuted is told
    labels.look(["cat"] * 40)
    labels.look(None)
