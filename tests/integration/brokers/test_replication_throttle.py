"""A throttled move copies at its rate, and --verify removes the throttle. There are three brokers, and one partition
moves.
"""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from kafka_zk.cli.main import run
from kafka_zk.testing.cluster import Cluster
from tests.integration.brokers.test_replication import quiet, wait_for_equal_replicas
from tests.integration.processes import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.embedded]

SIZE_BYTES = 2_000_000
RATE = 250_000  # bytes per second
FETCH_BYTES = 65_536
KEYS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")

Command = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    properties = {"replica.fetch.max.bytes": str(FETCH_BYTES), "replica.fetch.backoff.ms": "200"}
    with Cluster(3, properties=properties, data=tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def reassign(cluster: Cluster, capfdbinary: pytest.CaptureFixture[bytes]) -> Command:
    """Returns the exit code and the whole output."""

    def ran(*arguments: str | Path) -> tuple[int, str]:
        code = run(["reassign", *map(str, arguments), "--bootstrap-server", cluster.bootstrap])
        captured = capfdbinary.readouterr()
        return code, (captured.out + captured.err).decode()

    return ran


def configured(admin: AdminClient, kind: ResourceType, name: str, keys: tuple[str, ...]) -> list[str]:
    """The keys that have a value."""
    [described] = admin.describe_configs([ConfigResource(kind, name)]).values()
    found = described.result(20)
    return [key for key in keys if key in found and found[key].value]


def test_a_move_takes_the_time_that_its_throttle_says(cluster: Cluster, reassign: Command, tmp_path: Path) -> None:
    """The next move has no throttle and is fast."""
    admin = AdminClient(quiet(cluster.bootstrap))
    admin.create_topics([NewTopic("t", 1, replica_assignment=[[0]])])["t"].result(20)
    producer = Producer({**quiet(cluster.bootstrap), "linger.ms": 5})
    for _ in range(SIZE_BYTES // 1000):
        producer.produce("t", bytes(1000), partition=0)
    assert producer.flush(30) == 0

    def moved(*replicas: int) -> Path:
        path = tmp_path / "moves.json"
        partitions = [{"topic": "t", "partition": 0, "replicas": list(replicas)}]
        path.write_text(json.dumps({"version": 1, "partitions": partitions}))
        return path

    begun_s = time.monotonic()
    code, told = reassign("--execute", moved(0, 1), "--throttle", str(RATE))
    assert code == 0 and f"Brokers 0, 1 copy at most {RATE}" in told.replace("\n", " ")
    assert configured(admin, ConfigResource.Type.TOPIC, "t", KEYS) == list(KEYS)
    code, told = reassign("--verify", moved(0, 1))
    assert code == 1 and "under way" in told and "removed" not in told
    assert configured(admin, ConfigResource.Type.BROKER, "1", RATES) == list(RATES)
    wait_for(lambda: reassign("--list")[1].startswith("No partition"), "the end of the move", 60)
    took_s = time.monotonic() - begun_s
    expected_s = SIZE_BYTES / RATE
    assert 0.6 * expected_s <= took_s <= 3 * expected_s
    code, told = reassign("--verify", moved(0, 1))
    assert code == 0 and "Throttles removed: broker 0, broker 1, topic t." in told.replace("\n", " ")
    assert "removed" not in reassign("--verify", moved(0, 1))[1]
    for broker in ("0", "1"):
        assert configured(admin, ConfigResource.Type.BROKER, broker, RATES) == []
    assert configured(admin, ConfigResource.Type.TOPIC, "t", KEYS) == []

    begun_s = time.monotonic()
    assert reassign("--execute", moved(0, 1, 2))[0] == 0
    wait_for(lambda: reassign("--verify", moved(0, 1, 2))[0] == 0, "the end of the move", 30)
    assert time.monotonic() - begun_s < 0.6 * expected_s
    wait_for_equal_replicas(cluster, "t")


def test_throttle_goes_with_execute(reassign: Command) -> None:
    assert reassign("--list", "--throttle", "5")[0] == 2
