"""Programs of other projects that work exactly once, killed and replaced: franz-go, sarama, Streams and Connect."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
import uuid
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.ports import free_port
from tests.integration.installed import exactly_once
from tests.peers import foreign_programs, jars, java
from tests.peers.apache_kafka import write_properties
from tests.peers.processes import ServerProcess, wait_until
from tests.peers.targets import Target

pytestmark = pytest.mark.peers

PARTITIONS = 2
_JVM_FLAGS = ("-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_WAIT_S = 60.0
_WORDS = ("at", "least", "once", "exactly", "most")
_LINES, _LAST = 400, 20
_CONNECT = "org.apache.kafka.connect.cli.ConnectDistributed"


def create(target: Target, topic: str, partitions: int = PARTITIONS) -> str:
    name = f"{topic}-{uuid.uuid4().hex[:8]}"
    with BlockingAdmin(bootstrap_servers=target.bootstrap) as admin:
        admin.create_topic(name, partitions, 1)
    return name


def committed(target: Target, topic: str, partitions: int = PARTITIONS) -> list[list[bytes]]:
    """The values that a read_committed reader gets now, of each partition, in order."""
    tps = [TopicPartition(topic, number) for number in range(partitions)]
    found: list[list[bytes]] = [[] for _ in tps]
    with BlockingReader(bootstrap_servers=target.bootstrap, isolation_level="read_committed") as reader:
        reader.assign(dict.fromkeys(tps, "earliest"))
        for records in reader.batches(reader.end_offsets(tps)):
            for record in records:
                found[record.partition].append(record.value)
    return found


# -- Go -----------------------------------------------------------------------------------------------------------


def run_go(program: str, *arguments: str) -> list[str]:
    command = [str(foreign_programs.go_program(program)), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_WAIT_S)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("program", foreign_programs.GO_PROGRAMS)
def test_go_readers_see_whole_transactions_or_nothing(target: Target, program: str) -> None:
    """The readers include those of the other Go client."""
    topic = create(target, program)
    run_go(program, "write", target.bootstrap, topic, f"id-{topic}")
    expected = [f"c{number}" for number in range(0, 10, 2)]
    assert committed(target, topic) == [[value.encode() for value in (*expected, "end")]] * PARTITIONS
    for reader in foreign_programs.GO_PROGRAMS:
        assert sorted(run_go(reader, "read", target.bootstrap, topic)) == sorted(expected * PARTITIONS)


@pytest.mark.parametrize("program", foreign_programs.GO_PROGRAMS)
def test_go_programs_work_exactly_once_under_kills(target: Target, tmp_path: Path, program: str) -> None:
    """Members are killed while they work, and one is paused until the others consider it dead."""
    source, results = create(target, "go-in"), create(target, "go-out")
    command = [str(foreign_programs.go_program(program)), "transform", target.bootstrap, source, results, source]
    exactly_once.run_under_kills(
        exactly_once.Members(lambda number: [*command, f"{source}-{number}"], tmp_path),
        bootstrap=target.bootstrap, source=source, target=results, partition_count=PARTITIONS, group=source,
        seed=1, kills=3, pause_s=8.0,
    )  # fmt: skip


# -- Kafka Streams ------------------------------------------------------------------------------------------------


class Programs:
    """Servers with a JVM of their own, which are killed at the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[ServerProcess] = []

    def start(self, command: Sequence[str]) -> ServerProcess:
        name = f"program-{len(self._started)}"
        process = ServerProcess(name, command, self._folder / f"{name}.out")
        self._started.append(process)
        return process

    def wait(self, condition: Any, what: str) -> None:
        """Wait for the condition. Raises: TimeoutError with the programs' output."""
        try:
            wait_until(condition, _WAIT_S, what, interval_s=0.3)
        except TimeoutError as late:
            raise TimeoutError(f"{late}\n" + "\n".join(each.tail() for each in self._started)) from late

    def close(self) -> None:
        for process in self._started:
            process.kill()


@pytest.fixture
def programs(tmp_path: Path) -> Any:
    started = Programs(tmp_path)
    yield started
    started.close()


def counts(target: Target, topic: str) -> dict[str, list[int]]:
    found = defaultdict(list)
    for values in committed(target, topic):
        for value in values:
            word, _, count = value.decode().partition(" ")
            found[word].append(int(count))
    return dict(found)


def counted(target: Target, topic: str) -> int:
    return sum(map(len, counts(target, topic).values()))


def lines_with(lines: int) -> dict[str, int]:
    """Number of ``lines`` that contain a word: each length is equally frequent."""
    return {word: lines * (len(_WORDS) - place) // len(_WORDS) for place, word in enumerate(_WORDS)}


def write_lines(target: Target, topic: str, begin: int, end: int) -> None:
    """Write the lines in transactions, each after an aborted one."""
    with BlockingProducer(bootstrap_servers=target.bootstrap, transactional_id=f"lines-{topic}") as producer:
        producer.init_transactions()
        for first in range(begin, end, 20):
            producer.begin_transaction()
            producer.send(topic, b"never never", partition=0)
            producer.flush()
            producer.abort_transaction()
            with producer.transaction():
                for number in range(first, first + 20):
                    line = " ".join(_WORDS[: number % len(_WORDS) + 1]).encode()
                    producer.send(topic, line, partition=number % PARTITIONS)


def test_streams_count_words_exactly_once_under_kills(target: Target, tmp_path: Path, programs: Programs) -> None:
    """Every word has each count once and in order: no input and no change of the state store is lost or duplicated,
    whichever instance restores the store from its changelog. One instance is killed and replaced by an empty one."""
    source, results = create(target, "lines"), create(target, "counts")

    def start(number: int) -> ServerProcess:
        arguments = [target.bootstrap, f"app-{source}", source, results, str(tmp_path / f"state-{number}")]
        return programs.start(java.driver_command(jars.APPLICATIONS, "WordCount", arguments, _JVM_FLAGS))

    victim, _ = start(0), start(1)
    write_lines(target, source, 0, _LINES // 2)
    programs.wait(lambda: counted(target, results) > 0, "the first counts")
    write_lines(target, source, _LINES // 2, _LINES - _LAST)
    victim.kill()
    start(2)
    programs.wait(lambda: counted(target, results) >= sum(lines_with(_LINES - _LAST).values()), "the words so far")
    write_lines(target, source, _LINES - _LAST, _LINES)  # a duplicate would come before these
    programs.wait(lambda: counted(target, results) >= sum(lines_with(_LINES).values()), "all words")
    assert counts(target, results) == {word: list(range(1, count + 1)) for word, count in lines_with(_LINES).items()}


# -- Kafka Connect ------------------------------------------------------------------------------------------------


def worker_properties(target: Target, name: str, port: int) -> dict[str, str]:
    return {
        "bootstrap.servers": target.bootstrap,
        "group.id": f"connect-{name}",
        **{f"{each}.storage.topic": f"connect-{each}-{name}" for each in ("config", "offset", "status")},
        **{f"{each}.storage.replication.factor": "1" for each in ("config", "offset", "status")},
        "offset.storage.partitions": "2",
        "status.storage.partitions": "1",
        "exactly.once.source.support": "enabled",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "plugin.discovery": "service_load",
        "listeners": f"http://127.0.0.1:{port}",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "500",
        "scheduled.rebalance.max.delay.ms": "0",
    }


def ask(port: int, path: str, document: Any = None) -> Any:
    """The response of a worker; None as long as it does not respond."""
    data = None if document is None else json.dumps(document).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"}, method="PUT" if data else "GET"
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return json.load(response)
    except (urllib.error.URLError, OSError):
        return None


@pytest.mark.weekly
def test_connect_copies_a_file_exactly_once_under_kills(target: Target, tmp_path: Path, programs: Programs) -> None:
    """A distributed worker with exactly-once sources is killed while a file grows, and another one continues."""
    topic = create(target, "file", 1)
    file = tmp_path / "lines.txt"
    lines: list[bytes] = []

    def grow() -> None:
        with file.open("ab") as growing:
            for _ in range(50):
                lines.append(b"line-%d" % len(lines))
                growing.write(lines[-1] + b"\n")

    def start() -> tuple[ServerProcess, int]:
        port = free_port()
        path = write_properties(tmp_path / f"worker-{port}.properties", worker_properties(target, topic, port))
        class_path = jars.class_path(jars.APPLICATIONS)
        logging = f"-Dlog4j.configuration=file:{java.SOURCES / 'tools-log4j.properties'}"
        return programs.start(["java", *_JVM_FLAGS, logging, "-cp", class_path, _CONNECT, str(path)]), port

    def is_copied(count: int) -> bool:
        grow()
        return len(committed(target, topic, 1)[0]) >= count

    connector = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector", "tasks.max": "1",
        "file": str(file), "topic": topic, "exactly.once.support": "required", "transaction.boundary": "poll",
    }  # fmt: skip
    victim, port = start()
    programs.wait(lambda: ask(port, f"/connectors/{topic}/config", connector) is not None, "the connector")
    programs.wait(lambda: is_copied(1000), "the first lines")
    victim.kill()
    start()
    killed_at = len(lines)
    programs.wait(lambda: is_copied(killed_at + 500), "the lines of the second worker")
    programs.wait(lambda: len(committed(target, topic, 1)[0]) >= len(lines), "the lines so far")
    grow()  # a duplicate would come before these
    programs.wait(lambda: len(committed(target, topic, 1)[0]) >= len(lines), "all lines")
    assert committed(target, topic, 1)[0] == lines
