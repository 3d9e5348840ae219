"""``kafka-zk consume --group`` and ``kafka-zk watch`` as processes."""

import json
import signal
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.registry.client.kazoo_blocking import run_blocking
from kafka_zk.registry.consumers import ConsumerRegistry
from kafka_zk.testing.plugin import MakeTopic, MakeZkClient
from tests.integration.groups.members import write
from tests.integration.processes import TIMEOUT_S, kafka_zk, start, wait_for

pytestmark = pytest.mark.integration

Consume = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def consume(kafka_zk_cluster: EmbeddedCluster, group: str, tmp_path: Path) -> Iterator[Consume]:
    """``consume(topic, name, *arguments)``: a member as a process, which traces into ``tmp_path``."""
    with ExitStack() as processes:

        def run(topic: str, name: str, *arguments: str) -> "subprocess.Popen[str]":
            process = start(
                "consume", "--group", group, "--topic", topic, "--zookeeper", kafka_zk_cluster.zookeeper_connect,
                "--from-beginning", "--name", name, "--trace", tmp_path,
                "--consumer-property", "zookeeper.session.timeout.ms=4000", *arguments,
            )  # fmt: skip
            processes.callback(process.wait)
            processes.callback(process.kill)
            return process

        yield run


def live(cluster: EmbeddedCluster, group: str, make_zk_client: MakeZkClient) -> Callable[[], set[str]]:
    registry = ConsumerRegistry(make_zk_client(cluster.zookeeper_connect), group)
    return lambda: set(run_blocking(registry.members()))


def traced(folder: Path, kind: str) -> list[dict[str, Any]]:
    """The events of one kind in the members' traces so far."""
    lines = [line for path in folder.glob("*.jsonl") for line in path.read_text().split("\n")[:-1]]
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def finished_members(folder: Path) -> set[str]:
    """The members that have finished a rebalance. A member that is killed before its trace shows this loses the
    summary.
    """
    return {event["actor"] for event in traced(folder, "RebalanceFinished")}


def test_a_member_resumes_where_the_former_one_stopped(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, group: str
) -> None:
    """With --max-messages, exactly the printed records are committed; with --timeout-ms, the command ends by itself."""
    topic = make_topic()
    write(kafka_zk_cluster, topic, 1, 10)
    where = ("--zookeeper", kafka_zk_cluster.zookeeper_connect)
    shown = [
        kafka_zk("consume", "--group", group, "--topic", topic, *where, "--from-beginning", *limit)
        for limit in (("--max-messages", "3"), ("--max-messages", "4"), ("--timeout-ms", "10000"))
    ]
    assert [done.returncode for done in shown] == [0, 0, 0], shown
    assert [done.stdout.split() for done in shown] == [["0", "1", "2"], ["3", "4", "5", "6"], ["7", "8", "9"]]


def test_sigterm_leaves_the_group_at_once(
    kafka_zk_cluster: EmbeddedCluster,
    make_topic: MakeTopic,
    make_zk_client: MakeZkClient,
    group: str,
    consume: Consume,
    tmp_path: Path,
) -> None:
    """The member's partitions are free long before its session could expire, and its offsets are committed."""
    topic = make_topic(partitions=2)
    write(kafka_zk_cluster, topic, 2, 5)
    members = live(kafka_zk_cluster, group, make_zk_client)
    process = consume(topic, "a")
    assert process.stdout
    assert sorted(process.stdout.readline() for _ in range(10)) == sorted([f"{number}\n" for number in range(5)] * 2)
    process.send_signal(signal.SIGTERM)
    assert process.wait(TIMEOUT_S) == 130
    assert members() == set()
    assert {tp for event in traced(tmp_path, "Released") for tp in event["partitions"]} == {f"{topic}-0", f"{topic}-1"}


def test_watch_tells_joins_and_deaths_with_their_rebalances(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, group: str, consume: Consume, tmp_path: Path
) -> None:
    """A joins, B joins, and B is killed: the output has three rebalances with the moved partitions, the silences, and
    the requests to ZooKeeper.
    """
    topic = make_topic(partitions=4)
    where = ("--zookeeper", kafka_zk_cluster.zookeeper_connect)
    with ExitStack() as cleanup:
        watch = start("watch", "--group", group, *where, "--trace", tmp_path, "--json", "--rebalances", "3")
        cleanup.callback(watch.wait)
        cleanup.callback(watch.kill)
        cooperative = ("--consumer-property", "partition.assignment.strategy=cooperative")
        consume(topic, "a", *cooperative)
        wait_for(lambda: len(traced(tmp_path, "RebalanceFinished")) == 1, "the first assignment")
        second = consume(topic, "b", *cooperative)
        wait_for(lambda: f"{group}_b" in finished_members(tmp_path), "the second one's partitions")
        second.kill()
        output, errors = watch.communicate(timeout=TIMEOUT_S)
    assert watch.returncode == 0, errors
    events = [json.loads(line) for line in output.splitlines()]
    rebalances = [event for event in events if event["event"] == "GroupRebalance"]
    a, b = f"{group}_a", f"{group}_b"
    assert len(rebalances[0]["first_owners"]) == 4
    assert [(each["before"], each["after"]) for each in rebalances[1]["silences"]] == [(a, b)] * 2
    assert rebalances[1]["untouched_count"] == 2 and rebalances[1]["requests"][b] > 0
    assert [(each["before"], each["after"]) for each in rebalances[2]["silences"]] == [(b, a)] * 2
    assert all(each["noticed"] for each in rebalances[2]["silences"])
    assert any(b in cause for cause in rebalances[2]["causes"])
    kinds = {(event["event"], event["actor"]) for event in events if "actor" in event}
    seen_outside = {
        "MemberSeen", "MemberGone", "OwnersSeen", "OwnersGone", "AssignmentSeen", "WatchFired", "WatchArmed"
    }  # fmt: skip
    assert {(kind, "observer") for kind in seen_outside} <= kinds
    assert {("WatchArmed", a), ("WatchFired", a), ("Claimed", b)} <= kinds


def test_watch_without_traces_tells_what_can_be_seen_from_outside(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, group: str, consume: Consume, tmp_path: Path
) -> None:
    """The output shows members, owners and the command's own watches, with every step in words."""
    topic = make_topic()
    consume(topic, "a")
    wait_for(lambda: traced(tmp_path, "DeliveryStarted"), "its partition")
    watch = kafka_zk(
        "watch", "--group", group, "--zookeeper", kafka_zk_cluster.zookeeper_connect, "--timeout-ms", "5000", "-v"
    )
    assert watch.returncode == 0, watch.stderr
    assert "observer    ids: a is there (can range)" in watch.stdout
    assert f"observer    owners: a-0 has {topic}-0 at 0" in watch.stdout
    assert "observer    sets a watch on ids" in watch.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--topic", "t", "--offset", "5"), "--offset cannot be used with --group"),
        (("--topic", "t", "--whitelist", "t"), "give one of --topic, --whitelist and --blacklist"),
        (("--topic", "t", "--consumer-property", "bootstrap.servers=h:1"), "bootstrap.servers: no such configuration"),
        (("--whitelist", "a["), "the topic filter 'a[' cannot be used"),
        (("--topic", "t", "--zookeeper", "127.0.0.1:1", "--consumer-property", "zookeeper.session.timeout.ms=300"),
         "127.0.0.1:1"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_sentence(arguments: tuple[str, ...], sentence: str, group: str) -> None:
    """There is no traceback, and the exit code is not 0."""
    done = kafka_zk("consume", "--group", group, *arguments)
    assert done.returncode in (1, 2) and sentence in done.stderr and "Traceback" not in done.stderr, done.stderr
