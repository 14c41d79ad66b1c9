"""Property tests run on shared machines, where a slow example is a busy neighbour and not a fault."""

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
