"""Randomness: whoever needs it takes a ``random.Random``; a simulated world passes one that it has seeded.

The default is the machine's own, which two processes never share (a fork copies the state of a seeded one).
"""

import uuid
from random import Random, SystemRandom

SYSTEM_RANDOM: Random = SystemRandom()


def random_uuid(source: Random) -> uuid.UUID:
    """A UUID of version 4."""
    return uuid.UUID(int=source.getrandbits(128), version=4)
