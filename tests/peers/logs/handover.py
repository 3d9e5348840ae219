"""One log folder goes back and forth between kafka-zk and Apache Kafka 3.9.1, stopped cleanly and killed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kazoo.client import KazooClient

from tests.peers import targets
from tests.peers.processes import wait_until
from tests.peers.targets import APACHE_KAFKA, KAFKA_ZK, Target

#: The holders of the folder, one after the other, and the end of each.
HOLDERS = (
    (KAFKA_ZK, "stopped"),
    (APACHE_KAFKA, "killed"),
    (KAFKA_ZK, "killed"),
    (APACHE_KAFKA, "stopped"),
    (KAFKA_ZK, "stopped"),
)
#: Kafka forgets a producer whose last record is older than a day (producer.id.expiration.ms) as soon as it loads it.
LATELY_MS = int(time.time() * 1000) - 3_600_000
_OVERRIDES = {"log.retention.ms": "-1", "zookeeper.session.timeout.ms": "3000"}
_WAIT_S = 30


@contextmanager
def holder(
    number: int,
    zookeeper: str,
    folder: Path,
    leads: Callable[[Target], bool],
    overrides: Mapping[str, str] = _OVERRIDES,
) -> Iterator[Target]:
    """The broker that has the folder next; afterwards, it and its session have ended.

    Args:
        folder: its name is also the chroot of the cluster.
        leads: whether clients find the leaders of the earlier holders' topics.
    """
    name, ending = HOLDERS[number]
    chroot = folder.name
    target = targets.start(name, zookeeper, folder, overrides={**_OVERRIDES, **overrides}, chroot=chroot)
    try:
        if number:
            wait_until(lambda: leads(target), _WAIT_S, "leaders")
        yield target
        if ending == "stopped":
            assert target.stop() == []
    finally:
        target.brokers[0].kill()
    target.brokers[0].output.rename(output_of(number, folder))
    wait_until(lambda: not _registered(f"{zookeeper}/{chroot}"), _WAIT_S, "the broker's session ends")


def output_of(number: int, folder: Path) -> Path:
    """The output of this holder."""
    return folder / f"{number}-{HOLDERS[number][0]}.out"


def _registered(zookeeper: str) -> list[str]:
    client = KazooClient(zookeeper)
    client.start()
    try:
        return list(client.get_children("/brokers/ids"))
    finally:
        client.stop()
        client.close()
