"""The shapes of damage."""

import pytest

from everybit.core.pattern import describe_pattern


@pytest.mark.parametrize(
    ("elements", "shape", "told"),
    [
        ([3], (8,), {"pattern": "single"}),
        ([4, 2, 3], (2, 8), {"pattern": "run", "length": 3}),
        ([0, 16, 32, 48], (8, 8), {"pattern": "stride", "stride": 16}),
        ([1, 9], (4, 8), {"pattern": "tile", "rows": [0, 2], "columns": [1, 2]}),
        (range(8), (2, 4), {"pattern": "whole"}),
        ([0, 21, 60], (8, 8), {"pattern": "scattered", "span": 61}),
    ],
)
def test_patterns(elements, shape, told):
    assert describe_pattern(list(elements), shape) == told
