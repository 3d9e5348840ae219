"""C: hostile contents of ZooKeeper, and recovery from them once the znodes are repaired."""

import json
import shutil
from collections.abc import Callable

import pytest
from kazoo.client import KazooClient

from kafka_zk.registry.paths import PERSISTENT_PATHS
from kafka_zk.testing.plugin import MakeZooKeeper
from tests.attack import payloads
from tests.attack.cluster import PROBED_TOPIC, wait_for
from tests.attack.siege import Siege

pytestmark = [pytest.mark.attack, pytest.mark.embedded]

BIG = "/brokers/topics/big"
TOO_BIG = json.dumps({"version": 1, "partitions": {"3000000000": [0]}}).encode()
EPOCH = "/controller_epoch"
GARBAGE = (b"garbage", b"\xff\x00{", b'{"version":1,"config":["x"]}')
HEALED_WITHIN_S = 20.0
TOLD_AGAIN_WITHIN_S = 40.0


def test_a_partition_id_that_no_request_can_hold(siege: Siege, znodes: KazooClient) -> None:
    """Neither the id nor its removal may keep another topic from getting a leader."""

    def attack() -> None:
        znodes.create(BIG, TOO_BIG)
        siege.victim.create_topic("beside-it")
        znodes.delete(BIG, recursive=True)
        siege.victim.create_topic("after-it")

    siege("C partition 3,000,000,000", attack)


def test_a_partition_id_that_no_request_can_hold_at_a_restart(siege: Siege, znodes: KazooClient) -> None:
    victim = siege.victim
    offset = victim.produce(PROBED_TOPIC, payloads.batch(b"written before"))
    znodes.create(BIG, TOO_BIG)

    def attack() -> None:
        victim.restart()
        records = wait_for(lambda: victim.records(PROBED_TOPIC), "an existing topic is served")
        assert records[offset] == b"written before"
        victim.create_topic("after-the-restart")

    siege("C the same at a restart", attack, waits=False)


def test_garbage_in_the_controller_epoch_that_is_repaired(siege: Siege, znodes: KazooClient) -> None:
    victim = siege.victim
    sound, _ = znodes.get(EPOCH)

    def attack() -> None:
        znodes.set(EPOCH, b"garbage")
        znodes.delete("/controller")
        wait_for(lambda: victim.logged("controller.?epoch"), "the log tells of the epoch")
        znodes.set(EPOCH, sound)
        wait_for(lambda: znodes.exists("/controller"), "there is a controller again", HEALED_WITHIN_S)
        victim.create_topic("after-the-repair", timeout_s=HEALED_WITHIN_S)

    siege("C garbage in /controller_epoch", attack, deadline_s=60)


def test_garbage_in_the_config_of_a_topic_that_is_written_to(siege: Siege, znodes: KazooClient) -> None:
    victim = siege.victim
    topic = victim.create_topic("written-to")
    path = f"/config/topics/{topic}"
    znodes.ensure_path(path)
    record = payloads.batch(b"record")
    writer = victim.connect()

    def spoil(garbage: bytes) -> None:
        position = victim.log_size()
        znodes.set(path, garbage)
        change = json.dumps({"version": 2, "entity_path": f"topics/{topic}"}).encode()
        znodes.create("/config/changes/config_change_", change, sequence=True)

        def told() -> list[str]:
            victim.produce(topic, record, writer)
            return victim.logged(f" ERROR .*{path}", position)

        wait_for(told, f"an ERROR names {path}, and records are taken meanwhile")
        for _ in range(20):
            victim.produce(topic, record, writer)

    def attack() -> None:
        for garbage in GARBAGE:
            spoil(garbage)

    siege("C garbage in a topic's config", attack, deadline_s=60)


def test_a_zookeeper_that_lost_its_data(make_siege: Callable[..., Siege], make_zookeeper: MakeZooKeeper) -> None:
    """The broker sees another cluster's ZooKeeper, and must report that repeatedly."""
    zookeeper = make_zookeeper()
    siege = make_siege(zookeeper.connect_string)

    def attack() -> None:
        zookeeper.stop()
        shutil.rmtree(zookeeper.data_dir / "data")
        zookeeper.start()
        told = r" ERROR .*cluster.?id"
        wait_for(lambda: len(siege.victim.logged(told)) > 1, "two ERRORs tell of the cluster id", TOLD_AGAIN_WITHIN_S)

    siege("C ZooKeeper without its data", attack, deadline_s=90)


def test_parents_hold_null_as_kafkas_do(siege: Siege, znodes: KazooClient) -> None:
    """Kafka's controller parses data that are not null."""
    siege.victim.create_topic("has-partitions")

    def empty(path: str) -> list[str]:
        """The znodes below ``path`` whose data have length zero, but are not null."""
        data, stat = znodes.get(path)
        children = znodes.get_children(path) if stat.numChildren else []
        own = [path] if data == b"" else []
        return own + [each for child in children for each in empty(f"{path.rstrip('/')}/{child}")]

    def attack() -> None:
        found = empty("/")
        assert not found, f"{len(found)} znodes hold zero-length data instead of null: {', '.join(found[:3])}, …"
        assert all(znodes.get(path)[0] is None for path in PERSISTENT_PATHS)

    siege("C parents hold null", attack)
