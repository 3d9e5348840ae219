"""``kafka-zk watch`` on a group of the broker whose members are clients of other projects."""

import json
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.testing.clients import create_topic
from tests.integration.commands.transcripts import compare, normalized
from tests.integration.groups.members import write
from tests.integration.processes import ENVIRON, TIMEOUT_S, kafka_zk, on_terminal, start, wait_for

pytestmark = pytest.mark.integration

PARTITIONS = 4
MOST_SCREENS = 100
Join = Callable[..., "subprocess.Popen[bytes]"]
Watch = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def cluster(traced_cluster: EmbeddedCluster) -> EmbeddedCluster:
    return traced_cluster


@pytest.fixture
def traces(cluster: EmbeddedCluster) -> Path:
    """The folder of the broker's trace."""
    assert cluster.trace is not None
    return cluster.trace


@pytest.fixture
def group() -> str:
    """A name that no group in ZooKeeper can have."""
    return f"a/group-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(cluster: EmbeddedCluster) -> str:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    create_topic(cluster.bootstrap, name, PARTITIONS, {})
    return name


@pytest.fixture
def join(cluster: EmbeddedCluster, group: str, topic: str) -> Iterator[Join]:
    """``join(name, client, strategy)``: a member as a process."""
    with ExitStack() as processes:

        def run(name: str, client: str = "confluent-kafka", strategy: str = "range") -> "subprocess.Popen[bytes]":
            module = "tests.integration.groups.broker_group_member"
            command = [sys.executable, "-m", module, client, cluster.bootstrap, group, topic, name, strategy]
            process = subprocess.Popen(command, env=ENVIRON, stderr=subprocess.DEVNULL)
            processes.callback(process.wait)
            processes.callback(process.kill)
            return process

        yield run


@pytest.fixture
def watch(cluster: EmbeddedCluster, group: str, tmp_path: Path) -> Iterator[Watch]:
    """``watch(*options)``: the command in a pipe, which already watches when this returns."""
    with ExitStack() as processes, (tmp_path / "watch.txt").open("w") as file:

        def run(*options: str | Path) -> "subprocess.Popen[str]":
            command = ("watch", "--group", group, "--bootstrap-server", cluster.bootstrap, *options)
            process = start(*command, stdout=file)
            processes.callback(process.wait)
            processes.callback(process.kill)
            assert process.stderr and process.stderr.readline() == f"waiting for members of group {group}\n"
            return process

        yield run


def rebalances(folder: Path) -> int:
    """The number of rebalances that the command has written so far."""
    return len(re.findall(r"^\d\d:\d\d:\d\d  .*(?:starts|→|reads)", (folder / "watch.txt").read_text(), re.MULTILINE))


def after(folder: Path, count: int, what: str) -> None:
    wait_for(lambda: rebalances(folder) >= count, what)


def story(watching: "subprocess.Popen[str]", join: Join, topic: str, folder: Path) -> str:
    """The output for two joins, a leave, a return and a death."""
    anna = join("anna")
    after(folder, 1, "anna's join")
    ben = join("ben", "kafka-python")
    after(folder, 2, "ben's join")
    anna.terminate()
    after(folder, 3, "that anna left")
    join("anna")
    after(folder, 4, "anna's return")
    ben.kill()
    after(folder, 5, "ben's death")
    watching.send_signal(signal.SIGINT)
    watching.wait(TIMEOUT_S)
    return (folder / "watch.txt").read_text().replace(topic, "t")


def test_one_line_for_each_change(watch: Watch, join: Join, topic: str, tmp_path: Path, traces: Path) -> None:
    """The broker's trace distinguishes a leave from the end of a session and counts the requests. The picture
    follows.
    """
    lines, _, picture = story(watch("--trace", traces), join, topic, tmp_path).partition("\n\n")
    compare("watch-broker", normalized(lines))
    rows = [line for line in picture.splitlines() if line.startswith("t-")]
    assert len(rows) == PARTITIONS and {letter for row in rows for letter in row[5:]} - set("·'") == set("ab")
    assert "a anna  b ben  · silent" in picture


def test_any_cluster_can_be_watched(watch: Watch, join: Join, topic: str, tmp_path: Path) -> None:
    """Without traces, as in a cluster of Apache Kafka, the command cannot distinguish a leave from a death."""
    lines, _, _ = story(watch(), join, topic, tmp_path).partition("\n\n")
    compare("watch-broker-without-traces", normalized(lines, (r"; silent N ms", "")))


def test_a_cooperative_change_is_one_rebalance(
    cluster: EmbeddedCluster, join: Join, group: str, topic: str, traces: Path
) -> None:
    """The rebalance has two generations, and the partitions that stay are never silent. -v prints the coordinator's
    steps, and --json prints everything.
    """
    where = ("--bootstrap-server", cluster.bootstrap)
    seeing = start("watch", "--group", group, *where, "--trace", traces, "--rebalances", "2", "-v")
    join("anna", strategy="cooperative-sticky")
    lines = seeing.stdout
    assert lines is not None
    wait_for(lambda: "anna starts" in lines.readline(), "anna's join")
    join("ben", strategy="cooperative-sticky")
    steps, _ = seeing.communicate(timeout=TIMEOUT_S)
    assert re.search(r"broker-0    anna's heartbeat is answered: rebalance in progress\n", steps), steps
    assert re.search(rf"broker-0    anna joins again, owns {topic}-0,1,2,3\n", steps)
    assert re.search(r"broker-0    generation 2: .*; \S+ leads and assigns by cooperative-sticky\n", steps)
    line = rf"ben joined: anna→ben {topic}-\d,\d; 2 never stopped; silent "
    assert re.search(rf"── rebalance 2 \(cooperative-sticky\), \d+ ms: {line}", steps)
    assert "requests to the coordinator: " in steps
    told = kafka_zk("watch", "--group", group, *where, "--trace", traces, "--rebalances", "2", "--json")
    kinds = [json.loads(each)["event"] for each in told.stdout.splitlines()]
    assert {"GenerationSeen", "MemberJoined", "JoinCompleted", "AssignmentCompleted", "GroupRebalance"} <= set(kinds)
    assert kinds.count("GroupRebalance") == 2 and "LeadersElected" not in kinds


def test_who_was_there_before(cluster: EmbeddedCluster, join: Join, group: str, topic: str) -> None:
    """The first look shows the existing members; their state comes from the coordinator, not from old records."""
    join("anna")
    where = ("--group", group, "--bootstrap-server", cluster.bootstrap)

    def is_seen() -> bool:
        done = kafka_zk("watch", *where, "--timeout-ms", "300")
        return f"at the first look anna has {topic}-0,1,2,3\n" in done.stdout

    wait_for(is_seen, "anna's assignment")


def test_the_live_screen(cluster: EmbeddedCluster, join: Join, group: str, topic: str, traces: Path) -> None:
    """The screen shows members × partitions with the lag behind the offsets that are committed at the broker."""
    write(cluster, topic, PARTITIONS, 5)
    with on_terminal(
        "watch", "--group", group, "--bootstrap-server", cluster.bootstrap, "--trace", traces
    ) as terminal:
        terminal.read_until("this group has no members yet")
        join("anna")
        at = terminal.read_until("anna joined: anna starts")
        for seen in ("MEMBER", "PARTITIONS", "LAG", "LAST EVENT", "a anna  · silent"):
            at = terminal.read_until(seen, at, timeout_s=20)
        row = re.compile(r"\nanna +\S+-0,1,2,3 +0  \d+ s ago: gets")
        for _ in range(MOST_SCREENS):
            if row.search(terminal.text):
                break
            at = terminal.read_until("LAST EVENT", at)
        assert row.search(terminal.text), terminal.text[-2000:]
        terminal.press("\x03")
        assert terminal.read_to_the_end() == 130
    assert max(map(len, terminal.text.splitlines())) <= 80


def test_without_brokers() -> None:
    """The error is one sentence that names the address."""
    done = kafka_zk("watch", "--group", "g", "--bootstrap-server", "127.0.0.1:1", "--timeout-ms", "1000")
    assert done.returncode == 1 and re.search("127.0.0.1:1", done.stderr) and "Traceback" not in done.stderr


def test_a_name_for_brokers_only() -> None:
    """In ZooKeeper, such a name would be a path."""
    done = kafka_zk("watch", "--group", "a/b", "--zookeeper", "127.0.0.1:1")
    assert done.returncode == 2 and "'a/b' is not a valid name for a ZooKeeper group" in done.stderr
