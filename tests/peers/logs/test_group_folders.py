"""A log folder with groups goes back and forth between kafka-zk and Apache Kafka 3.9.1, stopped cleanly and killed.

The next broker continues its groups: committed offsets, generations, and members whose clients live on.
"""

from __future__ import annotations

from pathlib import Path

import confluent_kafka
import pytest
from kazoo.client import KazooClient

from tests.peers import jars, java, targets
from tests.peers.processes import wait_until
from tests.peers.targets import APACHE_KAFKA, KAFKA_ZK, Target

pytestmark = pytest.mark.peers

_CHROOT = "group-folders"
_TOPIC, _GROUP = "handed-over", "readers"
_OVERRIDES = {"zookeeper.session.timeout.ms": "3000", "group.initial.rebalance.delay.ms": "0"}
_DUMP = "kafka.tools.DumpLogSegments"

#: The holders of the folder, one after the other, and the end of each.
_HOLDERS = (
    (KAFKA_ZK, "stopped"),
    (APACHE_KAFKA, "killed"),
    (KAFKA_ZK, "killed"),
    (APACHE_KAFKA, "stopped"),
    (KAFKA_ZK, "stopped"),
)


def _produce(target: Target, values: list[bytes]) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": target.bootstrap, "log_level": 3})
    for value in values:
        producer.produce(_TOPIC, value)
    assert producer.flush(30) == 0


def _consume(target: Target, count: int) -> list[bytes]:
    """The records that a member of the group reads and commits, from the beginning if nothing is committed."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": target.bootstrap, "group.id": _GROUP, "auto.offset.reset": "earliest",
            "enable.auto.commit": False, "log_level": 3,
        }
    )  # fmt: skip
    consumer.subscribe([_TOPIC])
    values: list[bytes] = []

    def has_read() -> bool:
        message = consumer.poll(0.1)
        if message is not None and not message.error():
            values.append(message.value() or b"")
        return len(values) >= count

    wait_until(has_read, 60, f"{count} records")
    consumer.commit(asynchronous=False)
    consumer.close()
    return values


def _is_registered(zookeeper: str) -> bool:
    client = KazooClient(zookeeper)
    client.start()
    try:
        return client.exists("/brokers/ids/0") is not None
    finally:
        client.stop()
        client.close()


def _generations(folder: Path) -> list[int]:
    """The generations of the group, as Apache Kafka's own tool reads them from the log."""
    [log] = [path for path in folder.rglob("__consumer_offsets-*/*.log") if path.stat().st_size]
    arguments = ["--files", str(log), "--offsets-decoder"]
    dumped = java.run_tool(jars.ORACLE_VERSION, _DUMP, arguments).text
    parts = dumped.split('"generation":')[1:]
    return [int(part.partition(",")[0]) for part in parts]


@pytest.mark.weekly
def test_each_holder_goes_on_where_the_one_before_ended(peer_zookeeper: str, tmp_path: Path) -> None:
    """Every record is read once, and generations count on."""
    for number, (holder, end) in enumerate(_HOLDERS):
        target = targets.start(holder, peer_zookeeper, tmp_path, overrides=_OVERRIDES, chroot=_CHROOT)
        if number == 0:
            target.create_topic(_TOPIC)
        values = [b"%d of %d" % (each, number) for each in range(20)]
        _produce(target, values)
        assert _consume(target, 20) == values
        if end == "stopped":
            assert not target.stop()
        else:
            target.brokers[0].kill()
            wait_until(lambda: not _is_registered(f"{peer_zookeeper}/{_CHROOT}"), 30, "the end of the session")
    generations = _generations(tmp_path)
    assert generations == sorted(generations) and generations[-1] >= 2 * len(_HOLDERS)
