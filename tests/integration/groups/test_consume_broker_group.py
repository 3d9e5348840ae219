"""``kafka-zk consume --group`` in groups of the broker, as processes."""

import signal
import uuid
from contextlib import ExitStack

import pytest
from confluent_kafka.admin import AdminClient

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.testing.plugin import MakeTopic
from tests.integration import processes
from tests.integration.groups.members import write
from tests.integration.processes import TIMEOUT_S, kafka_zk, start

pytestmark = pytest.mark.integration


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


def members(cluster: EmbeddedCluster, group: str) -> list[str]:
    """The client ids of the group's members, according to its coordinator."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 3})
    found = admin.describe_consumer_groups([group])[group].result(TIMEOUT_S)
    return sorted(member.client_id for member in found.members)


def test_a_member_resumes_where_the_former_one_stopped(
    group_cluster: EmbeddedCluster, make_topic: MakeTopic, group: str
) -> None:
    """With --max-messages, exactly the printed records are committed; with --timeout-ms, the command ends by itself."""
    topic = make_topic(cluster=group_cluster)
    write(group_cluster, topic, 1, 10)
    where = ("--bootstrap-server", group_cluster.bootstrap)
    shown = [
        kafka_zk("consume", "--group", group, "--topic", topic, *where, "--from-beginning", *limit)
        for limit in (("--max-messages", "3"), ("--max-messages", "4"), ("--timeout-ms", "10000"))
    ]
    assert [done.returncode for done in shown] == [0, 0, 0], shown
    assert [done.stdout.split() for done in shown] == [["0", "1", "2"], ["3", "4", "5", "6"], ["7", "8", "9"]]


def test_ctrl_c_leaves_the_group_at_once_and_commits(
    group_cluster: EmbeddedCluster, make_topic: MakeTopic, group: str
) -> None:
    topic = make_topic(cluster=group_cluster, partitions=2)
    write(group_cluster, topic, 2, 5)
    arguments = ("--group", group, "--topic", topic, "--bootstrap-server", group_cluster.bootstrap)
    with ExitStack() as cleanup:
        process = start("consume", *arguments, "--from-beginning", "--name", "anna")
        cleanup.callback(process.wait)
        cleanup.callback(process.kill)
        assert process.stdout
        lines = sorted(process.stdout.readline() for _ in range(10))
        assert lines == sorted([f"{number}\n" for number in range(5)] * 2)
        assert members(group_cluster, group) == ["anna"]
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 130
    assert members(group_cluster, group) == []
    again = kafka_zk("consume", *arguments, "--from-beginning", "--timeout-ms", "4000")
    assert (again.returncode, again.stdout) == (0, "")


def test_whitelist_reads_all_topics_that_match_and_notices_new_ones(
    group_cluster: EmbeddedCluster, make_topic: MakeTopic, group: str
) -> None:
    prefix = f"wl{uuid.uuid4().hex[:8]}"
    write(group_cluster, make_topic(f"{prefix}-a", cluster=group_cluster), 1, 2)
    with ExitStack() as cleanup:
        process = start(
            "consume", "--group", group, "--whitelist", f"{prefix}-.*", "--from-beginning",
            "--bootstrap-server", group_cluster.bootstrap,
            "--consumer-property", "metadata.max.age.ms=200",
        )  # fmt: skip
        cleanup.callback(process.wait)
        cleanup.callback(process.kill)
        assert process.stdout and [process.stdout.readline() for _ in range(2)] == ["0\n", "1\n"]
        write(group_cluster, make_topic(f"{prefix}-b", cluster=group_cluster), 1, 2)
        assert [process.stdout.readline() for _ in range(2)] == ["0\n", "1\n"]


def test_the_variables_name_servers_and_do_not_choose(
    group_cluster: EmbeddedCluster, make_topic: MakeTopic, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With both variables, the group is a ZooKeeper group; --type or --bootstrap-server select the brokers' group."""
    topic = make_topic(cluster=group_cluster)
    write(group_cluster, topic, 1, 3)
    variables = {
        "KAFKA_ZK_BOOTSTRAP": group_cluster.bootstrap, "KAFKA_ZK_ZOOKEEPER": group_cluster.zookeeper_connect
    }  # fmt: skip
    monkeypatch.setattr(processes, "ENVIRON", {**processes.ENVIRON, **variables})
    read = ("consume", "--group", group, "--topic", topic, "--from-beginning", "--max-messages", "3")
    for chosen in ((), ("--type", "broker")):
        done = kafka_zk(*read, *chosen)
        assert (done.returncode, done.stdout.split()) == (0, ["0", "1", "2"]), done.stderr
    admin = AdminClient({"bootstrap.servers": group_cluster.bootstrap, "log_level": 3})
    assert group in {each.group_id for each in admin.list_consumer_groups().result(TIMEOUT_S).valid}
    asked = kafka_zk(*read, "--type", "zookeeper", "--timeout-ms", "3000")
    assert (asked.returncode, asked.stdout) == (0, ""), "the first group was not one of ZooKeeper, or had not committed"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--topic", "t", "--zookeeper", "h:1"), "give --bootstrap-server or --zookeeper, or say --type"),
        (("--topic", "t", "--trace", "f"), "--trace is for ZooKeeper groups"),
        (("--topic", "t", "--exit-at-end"), "--exit-at-end cannot be used with --group"),
        (("--whitelist", "a["), "the topic filter 'a[' cannot be used"),
        (("--topic", "t", "--consumer-property", "zookeeper.connect=h:1"), "zookeeper.connect: no such configuration"),
        (("--topic", "t", "--consumer-property", "partition.assignment.strategy=sticky"), "'sticky' is not one of"),
        (("--topic", "t", "--consumer-property", "heartbeat.interval.ms=50000"), "must be below session.timeout.ms"),
        (("--topic", "t", "--name", "a", "--consumer-property", "client.id=b"), "both name the member"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(arguments: tuple[str, ...], sentence: str, group: str) -> None:
    done = kafka_zk("consume", "--group", group, "--bootstrap-server", "127.0.0.1:1", *arguments)
    assert done.returncode in (1, 2) and sentence in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_a_broker_that_is_not_there_is_one_sentence(group: str) -> None:
    done = kafka_zk("consume", "--group", group, "--bootstrap-server", "127.0.0.1:1", "--topic", "t", "--wait")
    assert done.returncode == 1 and "cannot reach any of 127.0.0.1:1" in done.stderr, done.stderr


def test_type_needs_a_group() -> None:
    done = kafka_zk("consume", "--topic", "t", "--type", "broker")
    assert done.returncode == 2 and "--type needs --group" in done.stderr, done.stderr
