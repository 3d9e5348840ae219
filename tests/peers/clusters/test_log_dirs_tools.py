"""Kafka's tools move replicas between log directories of our broker as between those of Apache Kafka 3.9.1."""

import json
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from tests.peers import jars, java, targets
from tests.peers.processes import wait_until

pytestmark = pytest.mark.peers

_REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
_LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
_BATCH_BYTES = 200_000
_BATCHES = 20
_MOVE_S = 60


class TwoFolders:
    """A broker with two log directories, and a topic with records in one of them."""

    def __init__(self, name: str, zookeeper: str, folder: Path) -> None:
        self.folders = [folder / "one", folder / "two"]
        overrides = {"log.dirs": ",".join(map(str, self.folders)), "log.retention.ms": "-1"}
        self.target = targets.start(name, zookeeper, folder, overrides=overrides, chroot=f"log-dirs-{name}")
        self._folder = folder
        self.target.create_topic("t")

    @property
    def homes(self) -> list[Path]:
        """The log directories that contain the partition. Kafka's has it in both for a moment."""
        return [each for each in self.folders if (each / "t-0").is_dir()]

    @property
    def home(self) -> Path:
        (home,) = self.homes
        return home

    def tool(self, main_class: str, *arguments: str) -> str:
        wanted = ["--bootstrap-server", self.target.bootstrap, *arguments]
        return java.run_tool(jars.ORACLE_VERSION, main_class, wanted).text

    def move(self, to: Path, *more: str) -> str:
        return self._reassign(to, "--execute", *more)

    def verify(self, to: Path) -> str:
        return self._reassign(to, "--verify")

    def _reassign(self, to: Path, *arguments: str) -> str:
        file = self._folder / "moves.json"
        moves = [{"topic": "t", "partition": 0, "replicas": [0], "log_dirs": [str(to)]}]
        file.write_text(json.dumps({"version": 1, "partitions": moves}))
        return self.tool(_REASSIGN, "--reassignment-json-file", str(file), *arguments)

    def content(self) -> bytes:
        return b"".join(file.read_bytes() for file in sorted((self.home / "t-0").glob("*.log")))

    def described(self) -> dict[str, list[bool]]:
        """Log directory -> for each log of the topic there, whether it is a future log."""
        said = self.tool(_LOG_DIRS, "--describe", "--topic-list", "t")
        document = json.loads(next(line for line in said.splitlines() if line.startswith("{")))
        return {
            Path(each["logDir"]).name: [found["isFuture"] for found in each["partitions"]]
            for each in document["brokers"][0]["logDirs"]
        }


@pytest.fixture(params=targets.NAMES)
def broker(request: pytest.FixtureRequest, peer_zookeeper: str, tmp_path: Path) -> Iterator[TwoFolders]:
    made = TwoFolders(request.param, peer_zookeeper, tmp_path)
    yield made
    complaints = made.target.stop()
    assert not complaints, "\n".join(complaints)


def _fill(broker: TwoFolders) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.target.bootstrap, "log_level": 2})
    for _ in range(_BATCHES):
        producer.produce("t", bytes(_BATCH_BYTES))
    assert producer.flush(_MOVE_S) == 0


def test_a_replica_moves_to_another_log_directory_and_back(broker: TwoFolders) -> None:
    _fill(broker)
    first = broker.home
    second = next(each for each in broker.folders if each != first)
    before = broker.content()
    said = broker.move(second, "--replica-alter-log-dirs-throttle", "40000")
    assert "started moving log directory to" in said
    assert broker.described() == {first.name: [False], second.name: [True]}
    assert "still in progress" in broker.verify(second)
    broker.move(second, "--replica-alter-log-dirs-throttle", "100000000", "--additional")
    wait_until(lambda: broker.homes == [second], _MOVE_S, "the move")
    assert "completed successfully" in broker.verify(second)
    assert broker.content() == before
    assert broker.described() == {first.name: [], second.name: [False]}
    _fill(broker)
    broker.move(first)
    wait_until(lambda: broker.homes == [first], _MOVE_S, "the move back")
    assert broker.target.end_offset("t", 0) == 2 * _BATCHES
