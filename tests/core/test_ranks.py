"""Ranks from the environment: what launchers give, and what nobody should."""

from __future__ import annotations

import pytest

from everybit.core.errors import UsageError
from everybit.core.ranks import rank_and_world


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, (0, 1)),
        ({"RANK": "", "WORLD_SIZE": ""}, (0, 1)),
        ({"RANK": "0", "WORLD_SIZE": "1"}, (0, 1)),
        ({"RANK": " 7 ", "WORLD_SIZE": "8"}, (7, 8)),
        ({"WORLD_SIZE": "4"}, (0, 4)),
        ({"RANK": "007", "WORLD_SIZE": "08"}, (7, 8)),
    ],
)
def test_what_launchers_give(environ, expected):
    assert rank_and_world(environ) == expected


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"WORLD_SIZE": "x"}, "WORLD_SIZE='x'"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE='0'"),
        ({"RANK": "x"}, "RANK='x'"),
        ({"RANK": "-1"}, "RANK='-1'"),
        ({"RANK": "1.0", "WORLD_SIZE": "2"}, "RANK='1.0'"),
        ({"RANK": "1_0", "WORLD_SIZE": "20"}, "RANK='1_0'"),
        ({"RANK": "\u0663", "WORLD_SIZE": "20"}, "RANK="),
        ({"RANK": "5", "WORLD_SIZE": "2"}, "RANK=5 is no rank of 2"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "go from 0 to 1"),
        ({"RANK": "5"}, "set WORLD_SIZE too"),
        ({"WORLD_SIZE": "9" * 5000}, "WORLD_SIZE="),
        ({"WORLD_SIZE": str(2**31)}, "WORLD_SIZE="),
    ],
)
def test_what_cannot_be_is_named(environ, named):
    with pytest.raises(UsageError) as caught:
        rank_and_world(environ)
    line = caught.value.line()
    assert named in line
    assert "\n" not in line
    assert len(line) < 200
