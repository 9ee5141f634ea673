# expect: SRC301@9, SRC301@13, SRC301@17
import asyncio
from functools import partial

import torch


async def read(path):
    return await asyncio.to_thread(torch.load, path, weights_only=False)


async def read_in_pool(loop, path):
    return await loop.run_in_executor(None, partial(torch.load, path, weights_only=False))


def submit(pool, path):
    return pool.submit(torch.load, path, map_location="cpu", weights_only=False)


def safely(pool, path):
    return pool.submit(torch.load, path, weights_only=True)
