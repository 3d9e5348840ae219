"""Topic ids: 22 characters of url-safe base64 in znodes and on disk, 16 bytes on the wire (Uuid.java@3.9)."""

import base64
import uuid
from functools import lru_cache
from random import Random

from kafka_zk.base.randomness import SYSTEM_RANDOM, random_uuid

ZERO = uuid.UUID(int=0)


def random_topic_id(random: Random = SYSTEM_RANDOM) -> uuid.UUID:
    """The id's text does not start with ``-``, so that the id can be used on a command line."""
    while True:
        topic_id = random_uuid(random)
        if not to_text(topic_id).startswith("-"):
            return topic_id


@lru_cache(maxsize=1000)
def to_text(topic_id: uuid.UUID) -> str:
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def from_text(text: str) -> uuid.UUID:
    """Raises ValueError when ``text`` is not a topic id."""
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))
