"""stub"""


async def ensure_built(directory, progress):
    raise NotImplementedError
