"""``kafka-zk watch`` on a group that changes: in a pipe, and on a terminal of 80 columns."""

import json
import re
import signal
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.testing.plugin import MakeTopic
from tests.integration.commands.transcripts import compare, normalized
from tests.integration.groups.members import write
from tests.integration.processes import TIMEOUT_S, kafka_zk, on_terminal, start, wait_for
from tests.terminal import CTRL_C

pytestmark = pytest.mark.integration

SESSION_TIMEOUT_MS = 4_000
PARTITIONS = 4
Join = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    return make_topic(partitions=PARTITIONS)


@pytest.fixture
def join(kafka_zk_cluster: EmbeddedCluster, group: str, topic: str, tmp_path: Path) -> Iterator[Join]:
    """``join(name)``: a cooperative member as a process, which traces into ``tmp_path``."""
    with ExitStack() as processes:

        def run(name: str, *arguments: str) -> "subprocess.Popen[str]":
            process = start(
                "consume", "--group", group, "--topic", topic, "--zookeeper", kafka_zk_cluster.zookeeper_connect,
                "--name", name, "--trace", tmp_path,
                "--consumer-property", "partition.assignment.strategy=cooperative",
                "--consumer-property", f"zookeeper.session.timeout.ms={SESSION_TIMEOUT_MS}", *arguments,
            )  # fmt: skip
            processes.callback(process.wait)
            processes.callback(process.kill)
            return process

        yield run


def rebalances(folder: Path) -> int:
    """The number of rebalances that ``watch`` has written so far into its file in ``folder``."""
    return len(re.findall(r"^\d\d:\d\d:\d\d  .*(?:starts|→)", (folder / "watch.txt").read_text(), re.MULTILINE))


def after(folder: Path, count: int, what: str) -> None:
    wait_for(lambda: rebalances(folder) >= count, what)


@pytest.fixture
def story(
    kafka_zk_cluster: EmbeddedCluster, join: Join, group: str, topic: str, tmp_path: Path
) -> str:
    """The output of ``watch`` in a pipe for three joins, a pause that is too long, a return, and a death."""
    out = tmp_path / "watch.txt"
    where = ("--zookeeper", kafka_zk_cluster.zookeeper_connect, "--trace", tmp_path)
    with out.open("w") as file, ExitStack() as cleanup:
        watch = start("watch", "--group", group, *where, stdout=file)
        cleanup.callback(watch.wait)
        cleanup.callback(watch.kill)
        assert watch.stderr and watch.stderr.readline() == f"waiting for members of group {group}\n"
        members = {}
        for number, name in enumerate(("anna", "ben", "cleo"), 1):
            members[name] = join(name)
            after(tmp_path, number, f"{name}'s join")
        members["ben"].send_signal(signal.SIGSTOP)
        after(tmp_path, 4, "the end of ben's session")
        members["ben"].send_signal(signal.SIGCONT)
        after(tmp_path, 5, "ben's return")
        members["cleo"].kill()
        after(tmp_path, 6, "cleo's death")
        watch.send_signal(signal.SIGINT)
        watch.wait(TIMEOUT_S)
    return out.read_text().replace(topic, "t")


def test_one_line_for_each_change(story: str) -> None:
    """Six changes make six lines, each after its cause; then comes the picture."""
    lines, _, picture = story.partition("\n\n")
    compare("watch", normalized(lines, (r"(t-\d)(,\d)*", "PARTITIONS")))
    rows = [line for line in picture.splitlines() if line.startswith("t-")]
    assert len(rows) == PARTITIONS and {letter for row in rows for letter in row[5:]} - {"·"} == set("abc'")
    assert "a anna  b ben  c cleo  · silent" in picture
    assert all(len(line) <= 100 for line in picture.splitlines())


def test_all_that_happens_is_there_for_who_asks(
    kafka_zk_cluster: EmbeddedCluster, join: Join, group: str, tmp_path: Path
) -> None:
    """-v prints the steps, and --json prints everything, including what the plain lines omit."""
    join("anna")
    where = ("--zookeeper", kafka_zk_cluster.zookeeper_connect, "--trace", tmp_path, "--rebalances", "1")
    steps = kafka_zk("watch", "--group", group, *where, "-v")
    assert "  anna        REBALANCE begins: " in steps.stdout, steps.stderr
    assert re.search(r"anna        claims \S+-0,1,2,3\n", steps.stdout)
    assert re.search(r"── rebalance 1 \(cooperative-sticky\), \d+ ms: anna joined: anna starts ", steps.stdout)
    told = kafka_zk("watch", "--group", group, *where, "--json")
    kinds = [json.loads(line)["event"] for line in told.stdout.splitlines()]
    assert {"WatchFired", "WatchArmed", "Reread", "Claimed", "DeliveryStarted", "GroupRebalance"} <= set(kinds)


def test_without_traces_owner_znodes_tell(
    kafka_zk_cluster: EmbeddedCluster, join: Join, group: str, topic: str, tmp_path: Path
) -> None:
    """The first line names the owners, and further lines name each change."""
    join("anna")
    wait_for(lambda: "DeliveryStarted" in "".join(each.read_text() for each in tmp_path.glob("*.jsonl")), "anna")
    watch = start("watch", "--group", group, "--zookeeper", kafka_zk_cluster.zookeeper_connect, "--rebalances", "1")
    assert watch.stdout
    assert watch.stdout.readline()[10:] == f"at the first look anna has {topic}-0,1,2,3\n"
    join("ben")
    output, _ = watch.communicate(timeout=TIMEOUT_S)
    line = rf"\d\d:\d\d:\d\d  ben joined: anna→ben {topic}-2,3; 2 never stopped; silent at most \d+ ms\n"
    assert re.match(line, output)


def test_the_live_screen(
    kafka_zk_cluster: EmbeddedCluster, join: Join, group: str, topic: str, tmp_path: Path
) -> None:
    """The screen shows members × partitions with lag and last event, within 80 columns, and disappears when the command
    ends.
    """
    write(kafka_zk_cluster, topic, PARTITIONS, 5)
    where = ("--zookeeper", kafka_zk_cluster.zookeeper_connect)
    with on_terminal("watch", "--group", group, *where, "--trace", tmp_path) as terminal:
        terminal.read_until("this group has no members yet")
        join("anna", "--from-beginning", "--consumer-property", "auto.commit.interval.ms=100")
        at = terminal.read_until("anna joined: anna starts")
        screen = at
        columns = ("MEMBER", "PARTITIONS", "LAG", "LAST EVENT")
        for seen in (*columns, "anna", "2 s ago: REBALANCE done", "a anna  · silent"):
            screen = terminal.read_until(seen, screen, timeout_s=20)
        assert re.search(r"\nanna +\S+-0,1,2,3 +0  \d s ago: REBALANCE done", terminal.text), "its lag is not 0"
        terminal.press(CTRL_C)
        assert terminal.read_to_the_end() == 130
    assert max(map(len, terminal.text.splitlines())) <= 80
    screen_and_end = terminal.text.rpartition(f" group {group} ")[2].replace(topic, "t")
    age = (r"\d+ s ago: REBALANCE done.*", "N s ago: REBALANCE done …")
    machine = (age, ("a{30,}", "AAA"), (r"^ +0.* s$", "     TIMES"))
    shown = normalized(screen_and_end, (r"─|\^C", ""), (" {9,}", "        "), *machine)
    compare("watch-terminal", shown)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--topic", "t", "--name", "anna"), "--name needs --group"),
        (("--topic", "t", "--group", "g", "--name", "a/b"), "--name 'a/b': part of a znode path"),
        (("--topic", "t", "--group", "g", "--name", "a", "--consumer-property", "consumer.id=b"),
         "--name and consumer.id both name the member"),
        (("--topic", "t", "--group", "g", "--name", "a", "--consumer-property", "group.instance.id=b"),
         "--name and group.instance.id both name the member"),
    ],
)  # fmt: skip
def test_names_that_cannot_be(arguments: tuple[str, ...], sentence: str) -> None:
    """The command prints one sentence before it connects to ZooKeeper."""
    done = kafka_zk("consume", *arguments)
    assert done.returncode == 2 and sentence in done.stderr, done.stderr


def test_the_help_says_how_to_name_a_member() -> None:
    assert "--name TEXT" in kafka_zk("consume", "--help").stdout
