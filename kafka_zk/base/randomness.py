"""Callers take a ``random.Random``; the simulator passes a seeded one.

The default is the system's generator, which has no state that a fork could copy.
"""

import uuid
from random import Random, SystemRandom

SYSTEM_RANDOM: Random = SystemRandom()


def random_uuid(source: Random) -> uuid.UUID:
    return uuid.UUID(int=source.getrandbits(128), version=4)
