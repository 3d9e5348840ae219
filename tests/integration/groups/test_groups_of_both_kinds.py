"""``kafka-zk groups`` where brokers also coordinate groups: the members are other clients."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from kafka import KafkaConsumer

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.main import run
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.embedded.ports import LOCALHOST, free_port
from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.client.kazoo_blocking import run_blocking
from kafka_zk.registry.client.pipeline import ensure_paths
from kafka_zk.registry.consumers import ConsumerRegistry
from kafka_zk.registry.group_topics import GroupTopic, GroupTopicRegistry
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.registry.znodes.consumers import (
    ConsumerRegistration,
    encode_owner,
    encode_registration,
    id_path,
    ids_path,
    owner_path,
)
from kafka_zk.testing.plugin import MakeCluster, MakeTopic, MakeZkClient
from tests.integration.processes import wait_for

pytestmark = pytest.mark.integration

RECORD_COUNT = 10


class Commands:
    """Runs ``kafka-zk groups …`` against one cluster, by default through its ZooKeeper."""

    def __init__(self, cluster: EmbeddedCluster, output: pytest.CaptureFixture[str]) -> None:
        self._at_zookeeper = ("--zookeeper", cluster.zookeeper_connect)
        self._output = output

    def __call__(self, *arguments: str | Path, code: int = 0) -> str:
        """Returns stdout, or the only sentence of a command that must fail."""
        self._output.readouterr()
        words = ["groups", *map(str, arguments)]
        if "--bootstrap-server" not in words:
            words += self._at_zookeeper
        assert run(words) == code, self._output.readouterr().err
        captured = self._output.readouterr()
        assert code != 1 or captured.err.count("\n") == 1, captured.err
        return captured.out if code == 0 else captured.err

    def documents(self, *arguments: str | Path) -> list[dict[str, Any]]:
        loaded: list[dict[str, Any]] = json.loads(self(*arguments, "--json"))
        return loaded


class Lab:
    """A cluster with a topic of two partitions, whose first has RECORD_COUNT records, and groups of both kinds."""

    def __init__(self, cluster: EmbeddedCluster, topic: str, client: RegistryClient, commands: Commands) -> None:
        self.cluster = cluster
        self.topic = topic
        self.client = client
        self.groups = commands

    def tp(self, partition: int) -> TopicPartition:
        return TopicPartition(self.topic, partition)

    def store_in_zookeeper(self, group: str, offsets: Mapping[int, int]) -> None:
        stored = {self.tp(partition): offset for partition, offset in offsets.items()}
        run_blocking(OffsetRegistry(self.client, group).store(stored))

    def in_zookeeper(self, group: str) -> dict[int, int]:
        registry = OffsetRegistry(self.client, group)
        stored = run_blocking(registry.fetch([self.tp(0), self.tp(1)]))
        return {tp.partition: each.offset for tp, each in stored.items()}

    def commit_at_broker(self, group: str, offsets: Mapping[int, int]) -> None:
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self.cluster.bootstrap, "group.id": group})
        tps = [confluent_kafka.TopicPartition(self.topic, number, offset) for number, offset in offsets.items()]
        consumer.commit(offsets=tps, asynchronous=False)
        consumer.close()

    def at_broker(self, group: str) -> dict[int, int]:
        """The group's offsets at the broker, as another client reads them."""
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self.cluster.bootstrap, "group.id": group})
        tps = [confluent_kafka.TopicPartition(self.topic, number) for number in (0, 1)]
        committed = consumer.committed(tps, timeout=30)
        consumer.close()
        return {each.partition: each.offset for each in committed if each.offset >= 0}


@pytest.fixture
def lab(
    make_cluster: MakeCluster,
    make_topic: MakeTopic,
    make_zk_client: MakeZkClient,
    capsys: pytest.CaptureFixture[str],
) -> Lab:
    cluster = make_cluster(
        properties={"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4"}
    )
    topic = make_topic("orders", partitions=2, cluster=cluster)
    with BlockingProducer(bootstrap_servers=cluster.bootstrap) as producer:
        for future in [producer.send(topic, b"v", partition=0, timestamp_ms=n) for n in range(RECORD_COUNT)]:
            future.result()
    return Lab(cluster, topic, make_zk_client(cluster.zookeeper_connect), Commands(cluster, capsys))


Join = Callable[..., confluent_kafka.Consumer]


@pytest.fixture
def join(lab: Lab) -> Iterator[Join]:
    """``join(group, client_id, topic)``: a live member of a group of the brokers, with its partitions."""
    with ExitStack() as members:

        def joined(group: str, client_id: str, topic: str = lab.topic, count: int = 2) -> confluent_kafka.Consumer:
            consumer = confluent_kafka.Consumer(
                {
                    "bootstrap.servers": lab.cluster.bootstrap, "group.id": group, "client.id": client_id,
                    "enable.auto.commit": "false", "heartbeat.interval.ms": "200", "log_level": 3,
                    "allow.auto.create.topics": "false",
                }
            )  # fmt: skip
            members.callback(consumer.close)
            consumer.subscribe([topic])
            wait_for(lambda: consumer.poll(0.05) is None and len(consumer.assignment()) == count, "its partitions")
            return consumer

        yield joined


async def join_in_zookeeper(
    client: RegistryClient, group: str, topic: str, name: str = "m1", capacity: int | None = None
) -> None:
    await ensure_paths(client, [ids_path(group)])
    registration = encode_registration(ConsumerRegistration({topic: 1}, capacity=capacity))
    await client.create(id_path(group, name), registration, ephemeral=True)


def test_a_group_that_is_only_looked_for_leaves_no_trace(lab: Lab) -> None:
    """No client has asked for a coordinator yet. Looking for a group must not create the offsets topic."""
    lab.store_in_zookeeper("old", {0: 4})
    assert [each["group"] for each in lab.groups.documents("list")] == ["old"]
    lab.groups("describe")
    lab.groups("migrate", "--group", "old", "--to", "broker", "--dry-run")
    of_nobody = ("--group", "new", "--type", "broker")
    assert "there is no group new at the brokers" in lab.groups("describe", *of_nobody, code=1)
    with BlockingAdmin(bootstrap_servers=lab.cluster.bootstrap) as admin:
        assert admin.list_topics() == [lab.topic]


def test_both_kinds_are_shown_with_members_hosts_and_lag(lab: Lab, join: Join) -> None:
    lab.store_in_zookeeper("readers", {0: 4})
    lab.commit_at_broker("readers", {0: 7})
    lab.commit_at_broker("writers", {1: 0})
    join("readers", "anna")
    assert lab.groups.documents("list") == [
        {"group": "readers", "type": "broker", "state": "Stable", "members": 1},
        {"group": "readers", "type": "zookeeper", "state": "Empty", "members": 0},
        {"group": "writers", "type": "broker", "state": "Empty", "members": 0},
    ]
    shown = lab.groups.documents("describe", "--group", "readers")
    owner = shown[0]["owner"]
    assert owner.startswith("anna-")
    columns = ("type", "partition", "current_offset", "log_end_offset", "lag", "owner", "host", "client_id")
    assert [tuple(row[column] for column in columns) for row in shown] == [
        ("broker", 0, 7, 10, 3, owner, LOCALHOST, "anna"),
        ("broker", 1, None, 0, None, owner, LOCALHOST, "anna"),
        ("zookeeper", 0, 4, 10, 6, None, None, None),
        ("zookeeper", 1, None, 0, None, None, None, None),
    ]
    assert {(row["group"], row["topic"]) for row in shown} == {("readers", lab.topic)}
    of_brokers = lab.groups.documents("describe", "--group", "readers", "--type", "broker")
    assert of_brokers == shown[:2]
    assert len(lab.groups.documents("describe")) == 5


async def own(client: RegistryClient, group: str, topic: str, owners: Mapping[int, str]) -> None:
    await ensure_paths(client, [owner_path(group, topic, 0).rpartition("/")[0]])
    for number, thread_id in owners.items():
        await client.create(owner_path(group, topic, number), encode_owner(thread_id), ephemeral=True)


def test_capacities_of_members_in_zookeeper_are_shown(lab: Lab, join: Join) -> None:
    """Anna and cara, which has no partition, register one; ben does not. Without any there is no column."""
    capacities = {"anna": 2, "ben": None, "cara": 1}
    for name, capacity in capacities.items():
        run_blocking(join_in_zookeeper(lab.client, "g", lab.topic, name, capacity))
    run_blocking(own(lab.client, "g", lab.topic, {0: "anna-0", 1: "ben-0"}))
    join("h", "dora")
    shown = lab.groups.documents("describe")
    assert [(row["group"], row["partition"], row["capacity"]) for row in shown] == [
        ("g", 0, 2), ("g", 1, None), ("g", None, 1), ("h", 0, None), ("h", 1, None)
    ]  # fmt: skip
    lines = [line.split()[-2:] for line in lab.groups("describe", "--group", "g").splitlines()]
    assert lines == [["OWNER", "CAPACITY"], ["anna-0", "2"], ["ben-0", "-"], ["cara", "1"]]
    assert "CAPACITY" not in lab.groups("describe", "--group", "h")


def test_members_that_own_nothing_have_a_line(lab: Lab, join: Join) -> None:
    """Three members share two partitions, so one of them owns none."""
    members = [join("readers", "anna"), join("readers", "ben", count=0)]

    def idle() -> list[dict[str, Any]]:
        for consumer in members:
            consumer.poll(0.05)
        rows = [row for row in lab.groups.documents("describe") if row["topic"] is None]
        return rows if len(rows) == 1 else []

    members.append(join("readers", "cleo", count=0))
    (row,) = wait_for(idle, "the idle member")
    assert (row["partition"], row["lag"], row["host"]) == (None, None, LOCALHOST)


def test_brokers_alone_are_enough(lab: Lab) -> None:
    """With brokers and without ZooKeeper, the command uses the brokers' groups and does not connect to ZooKeeper."""
    lab.store_in_zookeeper("g", {0: 4})
    lab.commit_at_broker("g", {0: 7})
    at_brokers = ("--bootstrap-server", lab.cluster.bootstrap)
    assert [row["type"] for row in lab.groups.documents("describe", "--group", "g", *at_brokers)] == ["broker"]
    reset = ("reset-offsets", "--group", "new", "--topic", lab.topic, "--to-latest", "--execute", *at_brokers)
    assert [row["new_offset"] for row in lab.groups.documents(*reset)] == [10, 0]
    assert lab.at_broker("new") == {0: 10, 1: 0}


def test_two_groups_of_one_name_are_not_confused(lab: Lab) -> None:
    lab.store_in_zookeeper("g", {0: 4})
    lab.commit_at_broker("g", {0: 7})
    reset = ("reset-offsets", "--group", "g", "--all-topics", "--shift-by", "1", "--execute")
    sentence = "Error: there is a ZooKeeper group g and a broker group g: choose one with --type\n"
    for words in (reset, ("delete", "--group", "g"), ("delete-offsets", "--group", "g", "--topic", lab.topic)):
        assert lab.groups(*words, code=1) == sentence
    assert lab.groups.documents(*reset, "--type", "zookeeper")[0]["type"] == "zookeeper"
    assert (lab.in_zookeeper("g"), lab.at_broker("g")) == ({0: 5}, {0: 7})
    lab.groups(*reset, "--type", "broker")
    assert (lab.in_zookeeper("g"), lab.at_broker("g")) == ({0: 5}, {0: 8})
    assert lab.groups("delete", "--group", "g", "--type", "broker") == "Deleted group g at the brokers.\n"
    assert lab.groups.documents("delete", "--group", "g") == [{"group": "g", "type": "zookeeper"}]
    assert "there is no group g in ZooKeeper or at the brokers" in lab.groups("delete", "--group", "g", code=1)
    assert lab.groups.documents("list") == []


def test_every_reset_gives_a_group_of_the_brokers_its_offsets(lab: Lab, tmp_path: Path) -> None:
    """--from-file reads the output of --export, with or without the group's name."""
    lab.commit_at_broker("g", {0: 7})
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{lab.topic},0,3\n{lab.topic},1,99\n")
    named = tmp_path / "named.csv"
    named.write_text(f"g,{lab.topic},0,5\nother,{lab.topic},0,1\n")
    for arguments, expected in (
        (("--to-earliest", "--topic", lab.topic), {0: 0, 1: 0}),
        (("--to-latest", "--topic", f"{lab.topic}:0"), {0: 10}),
        (("--to-current", "--topic", lab.topic), {0: 7, 1: 0}),
        (("--to-offset", "99", "--all-topics"), {0: 10}),
        (("--shift-by", "-2", "--all-topics"), {0: 5}),
        (("--to-datetime", "4", "--all-topics"), {0: 4}),
        (("--by-duration", "P1D", "--all-topics"), {0: 10}),
        (("--from-file", str(plan)), {0: 3, 1: 0}),
        (("--from-file", str(named)), {0: 5}),
    ):
        rows = lab.groups.documents("reset-offsets", "--group", "g", *arguments)
        assert {row["partition"]: row["new_offset"] for row in rows} == expected, arguments
        assert lab.at_broker("g") == {0: 7}
    exported = lab.groups("reset-offsets", "--group", "g", "--to-current", "--topic", lab.topic, "--export")
    assert exported == f"{lab.topic},0,7\n{lab.topic},1,0\n"
    lab.groups("reset-offsets", "--group", "g", "--from-file", plan, "--execute")
    assert lab.at_broker("g") == {0: 3, 1: 0}


def test_what_a_group_reads_no_longer_can_be_forgotten(lab: Lab, make_topic: MakeTopic) -> None:
    lab.commit_at_broker("g", {0: 7, 1: 0})
    lab.store_in_zookeeper("old", {0: 4, 1: 0})
    for group, offsets in (("g", lab.at_broker), ("old", lab.in_zookeeper)):
        (row,) = lab.groups.documents("delete-offsets", "--group", group, "--topic", f"{lab.topic}:1")
        assert (row["partition"], row["deleted_offset"]) == (1, 0)
        assert list(offsets(group)) == [0]
        missing = lab.groups("delete-offsets", "--group", group, "--topic", f"{lab.topic}:1", code=1)
        assert f"{lab.topic}:1: group {group} has no such offsets" in missing
        lab.groups("delete-offsets", "--group", group, "--topic", lab.topic)
        assert offsets(group) == {}


def test_a_live_group_of_the_brokers_is_left_alone(lab: Lab, join: Join) -> None:
    lab.commit_at_broker("g", {0: 7})
    lab.store_in_zookeeper("g", {0: 9})
    join("g", "anna")
    refused = "the broker group g has 1 live members (anna-"
    of_brokers = ("--group", "g", "--type", "broker")
    for words in (
        ("delete", *of_brokers),
        ("reset-offsets", *of_brokers, "--all-topics", "--to-latest", "--execute"),
        ("migrate", "--group", "g", "--to", "broker"),
        ("migrate", "--group", "g", "--to", "zookeeper"),
    ):
        assert refused in lab.groups(*words, code=1)
    assert "GROUP_SUBSCRIBED_TO_TOPIC" in lab.groups("delete-offsets", *of_brokers, "--topic", lab.topic, code=1)
    assert (lab.in_zookeeper("g"), lab.at_broker("g")) == ({0: 9}, {0: 7})


def test_offsets_move_over_and_never_back(lab: Lab) -> None:
    """Partition 0 is ahead in ZooKeeper and partition 1 at the broker; in the end, both sides are equal."""
    lab.store_in_zookeeper("g", {0: 9, 1: 2})
    lab.commit_at_broker("g", {0: 7, 1: 3})
    migrate = ("migrate", "--group", "g", "--to", "broker")
    shown = lab.groups.documents(*migrate, "--dry-run")
    row = {"group": "g", "topic": lab.topic}
    expected: list[dict[str, object]] = [
        {**row, "partition": 0, "zookeeper_offset": 9, "broker_offset": 7, "result": "copied", "reason": None},
        {**row, "partition": 1, "zookeeper_offset": 2, "broker_offset": 3, "result": "kept", "reason": "would go back"},
    ]
    assert shown == [{**expected[0], "result": "would be copied"}, expected[1]]
    assert lab.at_broker("g") == {0: 7, 1: 3}
    assert lab.groups.documents(*migrate) == expected
    assert lab.at_broker("g") == {0: 9, 1: 3}
    assert [each["reason"] for each in lab.groups.documents(*migrate)] == ["equal", "would go back"]
    back = lab.groups.documents("migrate", "--group", "g", "--to", "zookeeper", "--topic", f"{lab.topic}:1")
    assert [(each["partition"], each["result"]) for each in back] == [(1, "copied")]
    assert lab.in_zookeeper("g") == {0: 9, 1: 3}
    lab.groups("migrate", "--group", "g", "--to", "zookeeper")
    assert lab.in_zookeeper("g") == lab.at_broker("g") == {0: 9, 1: 3}


def test_a_group_is_new_where_its_offsets_come_to(lab: Lab) -> None:
    """The group continues at its old offset on the other side; offsets of partitions that no longer exist are left
    behind.
    """
    lab.store_in_zookeeper("old", {0: 4, 7: 1})
    rows = lab.groups.documents("migrate", "--group", "old", "--to", "broker")
    assert [(row["partition"], row["result"], row["reason"]) for row in rows] == [
        (0, "copied", None), (7, "kept", "no such partition")
    ]  # fmt: skip
    consumer = KafkaConsumer(
        lab.topic, group_id="old", bootstrap_servers=lab.cluster.bootstrap, auto_offset_reset="latest",
        consumer_timeout_ms=30_000,
    )  # fmt: skip
    assert next(consumer).offset == 4
    consumer.close()
    lab.commit_at_broker("new", {0: 6})
    lab.groups("migrate", "--group", "new", "--to", "zookeeper")
    assert lab.in_zookeeper("new") == {0: 6}
    assert "there is no group nobody in ZooKeeper" in lab.groups(
        "migrate", "--group", "nobody", "--to", "broker", code=1
    )


def test_members_in_zookeeper_keep_their_offsets(lab: Lab) -> None:
    lab.store_in_zookeeper("g", {0: 4})
    lab.commit_at_broker("g", {0: 9})
    run_blocking(join_in_zookeeper(lab.client, "g", lab.topic))
    assert run_blocking(ConsumerRegistry(lab.client, "g").members())
    for to in ("broker", "zookeeper"):
        assert "group g has 1 live members (m1); stop them first" in lab.groups(
            "migrate", "--group", "g", "--to", to, code=1
        )
    assert lab.in_zookeeper("g") == {0: 4}


def test_offsets_of_a_topic_that_was_deleted_are_not_those_of_the_next(lab: Lab, make_topic: MakeTopic) -> None:
    """Our member has read the earlier topic, so the group knows its id; see registry/group_topics.py."""
    client, tp = lab.client, TopicPartition("made-again", 0)
    offsets, topics = OffsetRegistry(client, "g"), GroupTopicRegistry(client, "g")
    run_blocking(offsets.store({tp: 4}))
    run_blocking(topics.remember({tp.topic: GroupTopic(1)}))
    make_topic(tp.topic, cluster=lab.cluster)
    migrate = ("migrate", "--group", "g", "--to", "broker")
    assert [row["reason"] for row in lab.groups.documents(*migrate)] == ["of a deleted topic"]
    run_blocking(offsets.store({tp: 5}))  # this offset belongs to the new topic
    assert [row["result"] for row in lab.groups.documents(*migrate)] == ["copied"]


def test_brokers_that_are_away_do_not_hide_zookeepers_groups(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    """A note reports the missing brokers; a command that changes something requires --type."""
    lab.store_in_zookeeper("g", {0: 4})
    nowhere = ("--bootstrap-server", f"{LOCALHOST}:{free_port()}", "--zookeeper", lab.cluster.zookeeper_connect)
    assert run(["groups", "describe", "--group", "g", *nowhere]) == 0
    shown = capsys.readouterr()
    assert "zookeeper" in shown.out and "The groups at the brokers are unknown: cannot reach any of" in shown.err
    refused = lab.groups("delete", "--group", "g", *nowhere, code=1)
    assert "it is unknown whether g is one of them" in refused and "--type zookeeper" in refused
    assert "cannot reach any of" in lab.groups("list", "--type", "broker", *nowhere, code=1)
    lab.groups("delete", "--group", "g", "--type", "zookeeper", *nowhere)
