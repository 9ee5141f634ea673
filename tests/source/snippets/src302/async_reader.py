# expect: SRC302@8
import pickle

import aiofiles


async def read(path):
    return pickle.loads(await (await aiofiles.open(path, "rb")).read())
