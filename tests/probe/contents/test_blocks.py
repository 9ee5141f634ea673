"""Words of large tensors by a part of their bytes."""

from __future__ import annotations

import torch

from everybit.probe.contents.blocks import (
    BLOCK_BYTES,
    LARGE_LEAF_BYTES,
    NUM_BLOCKS,
    block_word,
    blocks_of,
    is_large,
    is_small,
)

LARGE = torch.arange(1 << 18, dtype=torch.float32).view(64, -1)


def test_what_differs_nearly_everywhere_has_another_word():
    word = block_word(LARGE)
    assert word
    assert block_word(LARGE.clone()) == word
    assert block_word(LARGE + 1) != word
    assert block_word(LARGE.flip(0)) != word
    assert block_word(LARGE.view(32, -1)) != word
    assert block_word(LARGE.view(torch.int32)) != word


def test_the_middle_of_each_part_is_read_and_not_the_rest():
    spacing = LARGE.nbytes // NUM_BLOCKS
    word = block_word(LARGE)
    for part in range(NUM_BLOCKS):
        changed = LARGE.clone()
        changed.view(-1).view(torch.uint8)[part * spacing + spacing // 2] ^= 1
        assert block_word(changed) != word
        changed = LARGE.clone()
        changed.view(-1).view(torch.uint8)[part * spacing] ^= 1
        assert block_word(changed) == word
    assert spacing > BLOCK_BYTES


def test_any_order_in_memory_is_read_as_it_lies():
    images = torch.rand(4, 3, 64, 64).to(memory_format=torch.channels_last)
    assert block_word(images) == block_word(images.clone()) != 0
    assert block_word(images.contiguous()) != block_word(images)


def test_the_least_that_is_large():
    just = torch.zeros(LARGE_LEAF_BYTES + 1, dtype=torch.uint8)
    assert is_large(just)
    assert block_word(just)
    assert is_small(just[:-1])
    assert not is_large(just[:-1])


def test_what_has_no_single_run_of_memory_has_none():
    assert block_word(LARGE[:, ::2]) == 0
    assert block_word(torch.zeros(1).expand(1 << 18)) == 0
    assert block_word(torch.empty(1 << 18, device="meta")) == 0
    assert not is_large(LARGE.to_sparse())
    assert not is_large(LARGE.numpy())
    found = blocks_of([("x", LARGE), ("y", torch.zeros(3)), ("z", "text")])
    assert found == [("x", block_word(LARGE))]
