"""Our consumer, confluent-kafka and kafka-python in one group of the broker: they join, leave and are killed."""

import random
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.testing.plugin import MakeCluster, MakeTopic
from tests.integration.groups.mixed_broker_group import KINDS
from tests.integration.processes import ENVIRON, TIMEOUT_S, wait_for

pytestmark = pytest.mark.integration

PARTITIONS = 6
CHANGES = 6
ASKED_S = 3
"""Timeout of a request in seconds: librdkafka may wait, without retrying, for a coordinator that does not exist yet."""
Position = tuple[int, int]


class Member:
    """One process of the group."""

    def __init__(self, kind: str, file: Path, *where: str) -> None:
        self.file = file
        command = [sys.executable, "-m", "tests.integration.groups.mixed_broker_group", kind, str(file), *where]
        self.process = subprocess.Popen(command, env=ENVIRON, stderr=subprocess.DEVNULL)

    def end(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
        self.process.wait(TIMEOUT_S)

    def read(self) -> list[Position]:
        text = self.file.read_text() if self.file.exists() else ""
        lines = text.split("\n")[:-1]
        return [(int(partition), int(offset)) for partition, offset in map(str.split, lines)]


class Watch:
    """Polls the group's committed offsets; ``went_back`` lists those that went back."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.went_back: list[str] = []
        self.offsets: dict[int, int] = {}
        self._consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 3})
        self._tps = [confluent_kafka.TopicPartition(topic, number) for number in range(PARTITIONS)]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(0.05):
            for each in self._consumer.committed(self._tps, timeout=TIMEOUT_S):
                if each.offset < self.offsets.get(each.partition, -(2**31)):
                    self.went_back.append(f"{each.partition}: {self.offsets[each.partition]} to {each.offset}")
                self.offsets[each.partition] = each.offset

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self._consumer.close()


@pytest.fixture
def cluster(make_cluster: MakeCluster) -> Iterator[EmbeddedCluster]:
    yield make_cluster(properties={"group.initial.rebalance.delay.ms": "500"})


def is_settled(admin: AdminClient, group: str, count: int) -> bool:
    """True if the group has ``count`` members that together own each partition once. Repeats a request without a
    response.
    """
    try:
        asked = admin.describe_consumer_groups([group], request_timeout=ASKED_S)
        found = asked[group].result(TIMEOUT_S)
    except confluent_kafka.KafkaException:
        return False
    assigned = sorted(tp.partition for member in found.members for tp in member.assignment.topic_partitions)
    return found.state.name == "STABLE" and len(found.members) == count and assigned == list(range(PARTITIONS))


@pytest.mark.long
def test_everything_is_read_and_no_offset_goes_back(
    cluster: EmbeddedCluster, make_topic: MakeTopic, tmp_path: Path, process_campaign_seed: int
) -> None:
    """After each change, each partition has one owner; at the end, every record was read at least once."""
    rng = random.Random(process_campaign_seed)
    topic, group = make_topic(partitions=PARTITIONS, cluster=cluster), f"mixed-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 3})
    members: list[Member] = []
    with ExitStack() as cleanup:
        producer = cleanup.enter_context(BlockingProducer(bootstrap_servers=cluster.bootstrap))
        live: dict[str, Member] = {}

        def join(kind: str) -> None:
            member = Member(kind, tmp_path / f"m{len(members)}", cluster.bootstrap, group, topic)
            cleanup.callback(member.process.wait)
            cleanup.callback(member.process.kill)
            members.append(member)
            live[kind] = member

        for kind in KINDS:
            join(kind)
        wait_for(lambda: is_settled(admin, group, len(KINDS)), "the first assignment")
        watch = Watch(cluster.bootstrap, group, topic)
        cleanup.callback(watch.close)
        ends = [0] * PARTITIONS
        for number in range(CHANGES):
            for partition in range(PARTITIONS):
                for _ in range(20):
                    producer.send(topic, b"%d" % number, partition=partition).result()
                    ends[partition] += 1
            absent = [kind for kind in KINDS if kind not in live]
            kind = KINDS[0] if number == 0 else rng.choice(KINDS)  # our consumer leaves or is killed at least once
            if absent and (len(live) == 1 or rng.random() < 0.5):
                join(rng.choice(absent))
            else:
                victim = live.pop(kind if kind in live else rng.choice(list(live)))
                victim.end(rng.choice((signal.SIGTERM, signal.SIGKILL)))
            wait_for(lambda: is_settled(admin, group, len(live)), f"an assignment after change {number}")

        written = {(partition, offset) for partition, end in enumerate(ends) for offset in range(end)}
        wait_for(lambda: written == {each for member in members for each in member.read()}, "every record")
        wait_for(lambda: watch.offsets == dict(enumerate(ends)), "all offsets to be committed")
        assert watch.went_back == []
