"""``kafka-zk groups`` on a running cluster, with a live member and without one."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.main import run
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.client.kazoo_blocking import run_blocking
from kafka_zk.registry.client.pipeline import ensure_paths
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.registry.owners import Claim, OwnerRegistry
from kafka_zk.registry.znodes.consumers import ConsumerRegistration, encode_registration, id_path, ids_path
from kafka_zk.testing.plugin import MakeTopic, MakeZkClient

pytestmark = pytest.mark.integration

Run = Callable[..., str]
RECORD_COUNT = 10


class Commands:
    """Runs ``kafka-zk groups …`` against one ZooKeeper."""

    def __init__(self, zookeeper: str, output: pytest.CaptureFixture[str]) -> None:
        self._zookeeper = zookeeper
        self._output = output

    def __call__(self, *arguments: str | Path, code: int = 0) -> str:
        """Returns stdout, or stderr of a command that must fail."""
        self._output.readouterr()
        words = ["groups", *map(str, arguments), "--zookeeper", self._zookeeper]
        assert run(words) == code, self._output.readouterr().err
        captured = self._output.readouterr()
        return captured.out if code == 0 else captured.err

    def documents(self, *arguments: str | Path) -> list[dict[str, object]]:
        loaded: list[dict[str, object]] = json.loads(self(*arguments, "--json"))
        return loaded


@pytest.fixture
def groups(kafka_zk_cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(kafka_zk_cluster.zookeeper_connect, capsys)


@pytest.fixture
def topic(kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic) -> str:
    """Two partitions; the first holds RECORD_COUNT records."""
    name = make_topic(partitions=2)
    with BlockingProducer(bootstrap_servers=kafka_zk_cluster.bootstrap) as producer:
        for future in [producer.send(name, b"v", partition=0) for _ in range(RECORD_COUNT)]:
            future.result()
    return name


@pytest.fixture
def group(kafka_zk_cluster: EmbeddedCluster, topic: str, make_zk_client: MakeZkClient) -> Iterator[str]:
    """A group that has read 4 of the first partition's records; its name is the topic's."""
    client = make_zk_client(kafka_zk_cluster.zookeeper_connect)
    run_blocking(OffsetRegistry(client, topic).store({TopicPartition(topic, 0): 4}))
    yield topic


async def join(client: RegistryClient, group: str, topic: str) -> None:
    """Two members: one owns the first partition, the other nothing."""
    await ensure_paths(client, [ids_path(group)])
    for member in ("m1", "m2"):
        await client.create(
            id_path(group, member), encode_registration(ConsumerRegistration({topic: 1})), ephemeral=True
        )
    await OwnerRegistry(client, group).claim([Claim(TopicPartition(topic, 0), "m1-0")])


def test_a_description_names_offset_lag_and_owner(
    groups: Commands, group: str, kafka_zk_cluster: EmbeddedCluster, make_zk_client: MakeZkClient
) -> None:
    """The table also contains the member that owns nothing."""
    run_blocking(join(make_zk_client(kafka_zk_cluster.zookeeper_connect), group, group))
    lines = groups("describe", "--group", group).splitlines()
    columns = ["GROUP", "TYPE", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "OWNER"]
    assert lines[0].split() == columns
    assert [line.split() for line in lines[1:]] == [
        [group, "zookeeper", group, "0", "4", "10", "6", "m1-0"],
        [group, "zookeeper", group, "1", "-", "0", "-", "-"],
        [group, "zookeeper", "-", "-", "-", "-", "-", "m2"],
    ]
    assert {"group": group, "type": "zookeeper", "state": "Live", "members": 2} in groups.documents("list")


def test_a_live_group_is_left_alone(
    groups: Commands, group: str, kafka_zk_cluster: EmbeddedCluster, make_zk_client: MakeZkClient, tmp_path: Path
) -> None:
    run_blocking(join(make_zk_client(kafka_zk_cluster.zookeeper_connect), group, group))
    exported = tmp_path / "offsets"
    groups("export", "--group", group, "--output-file", exported)
    refused = "has 2 live members (m1, m2); stop them first"
    assert refused in groups("delete", "--group", group, code=1)
    assert refused in groups("reset-offsets", "--group", group, "--all-topics", "--to-latest", "--execute", code=1)
    assert refused in groups("import", "--input-file", exported, code=1)
    assert groups.documents("describe", "--group", group)[0]["current_offset"] == 4


def test_a_dry_run_shows_what_execute_does(groups: Commands, group: str) -> None:
    """Without --dry-run and --execute, the command makes a dry run, as Kafka's tool does."""
    for arguments, expected in (
        (("--shift-by", "-1", "--all-topics"), [3]),
        (("--to-offset", "99", "--topic", f"{group}:0"), [10]),
        (("--to-earliest", "--topic", group), [0, 0]),
        (("--to-latest", "--topic", group), [10, 0]),
        (("--to-datetime", "2020-01-01T00:00Z", "--topic", group), [0, 0]),
    ):
        reset = ("reset-offsets", "--group", group, *arguments)
        before = groups("export", "--group", group)
        assert [row["new_offset"] for row in groups.documents(*reset)][: len(expected)] == expected
        assert groups("export", "--group", group) == before
    groups(*reset, "--execute")
    assert groups("export", "--group", group).splitlines() == [
        f"/consumers/{group}/offsets/{group}/{partition}:0" for partition in (0, 1)
    ]


def test_export_delete_import(groups: Commands, group: str, tmp_path: Path) -> None:
    """A dead group is deleted, and the file restores its offsets."""
    exported = tmp_path / "offsets"
    groups("export", "--group", group, "--output-file", exported)
    assert {"group": group, "type": "zookeeper", "state": "Empty", "members": 0} in groups.documents("list")
    assert groups("delete", "--group", group) == f"Deleted group {group} in ZooKeeper.\n"
    assert f"there is no group {group}" in groups("delete", "--group", group, code=1)
    assert f"there is no group {group}" in groups("describe", "--group", group, code=1)
    assert groups("import", "--input-file", exported) == f"Stored 1 offsets of group {group} in ZooKeeper.\n"
    assert groups.documents("export", "--group", group)[0]["offset"] == 4
    groups("delete-offsets", "--group", group, "--topic", group)
    assert groups("export", "--group", group) == ""
    groups("delete", "--group", group)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--all-topics",),
        ("--all-topics", "--to-latest", "--to-earliest"),
        ("--to-latest",),
        ("--to-latest", "--all-topics", "--topic", "t"),
        ("--to-latest", "--all-topics", "--execute", "--dry-run"),
    ],
)
def test_a_reset_says_what_it_needs(groups: Commands, arguments: tuple[str, ...]) -> None:
    assert "give " in groups("reset-offsets", "--group", "g", *arguments, code=2)
