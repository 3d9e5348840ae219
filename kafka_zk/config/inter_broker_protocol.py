"""``inter.broker.protocol.version``: by which requests brokers of different ages talk to each other.

``2.7-IV2`` is the third step on the way to 2.7, ``2.7`` the last of them. Source: MetadataVersion.java@3.9.
"""

import re
from typing import NamedTuple

_VERSION = re.compile(r"(0\.\d+\.\d+|[1-9]\d*\.\d+)(?:\.\d+)*(?:-IV(\d+))?")
_LAST_STEP = 1_000


class BadProtocolVersion(ValueError):
    """Not a version of Kafka that has ZooKeeper."""


class InterBrokerProtocol(NamedTuple):
    """Ordered by age."""

    release: tuple[int, ...]
    step: int

    @property
    def alters_partitions(self) -> bool:
        """Whether a leader asks the controller for another ISR (KIP-497); before, it wrote it to ZooKeeper itself."""
        return self >= ALTER_PARTITION

    @property
    def knows_topic_ids(self) -> bool:
        """Whether requests between brokers may name topics by their ids (KIP-516)."""
        return self >= TOPIC_IDS


ALTER_PARTITION = InterBrokerProtocol((2, 7), 2)
TOPIC_IDS = InterBrokerProtocol((2, 8), 0)
_FIRST, _LAST = (0, 8, 0), (3, 9)


def parse(text: str) -> InterBrokerProtocol:
    """Raises: BadProtocolVersion."""
    found = _VERSION.fullmatch(text.strip())
    release = () if found is None else tuple(int(part) for part in found[1].split("."))
    if found is None or not _FIRST <= release <= _LAST:
        raise BadProtocolVersion(f"{text}: allowed is a version of Kafka from 0.8.0 to 3.9, for example 3.9-IV0")
    return InterBrokerProtocol(release, _LAST_STEP if found[2] is None else int(found[2]))
