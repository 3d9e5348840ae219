"""Our commands and clients with a secured Apache Kafka: a row for each, with each way to log in.

``table`` is the table of docs/how-to/security.md if all rows work.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka_zk.clients.consumer.blocking_consumer import BlockingConsumer
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.recorder.recording.recording import Recording
from tests.peers.jars import NEWEST_VERSION, ORACLE_VERSION
from tests.peers.processes import wait_until
from tests.peers.secured_kafka import PASSWORD, STORE_PASSWORD, WAYS, SecuredKafka

_TIMEOUT_S = 90
_PRODUCED = [f"line {number}" for number in range(20)]
_COUNT = str(len(_PRODUCED))


def kafka_zk(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kafka_zk", *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    assert PASSWORD not in done.stdout + done.stderr
    return done


def ok(*arguments: str, stdin: str = "") -> str:
    done = kafka_zk(*arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


@dataclass(frozen=True)
class Scene:
    """One way to log in to one broker. ``spark``: a session."""

    kafka: SecuredKafka
    way: str
    folder: Path
    spark: Any

    @property
    def topic(self) -> str:
        return f"t-{self.way.replace(' ', '-')}"

    @property
    def file(self) -> tuple[str, str]:
        return "--command-config", str(self.kafka.client_file(self.way))

    @property
    def at(self) -> tuple[str, ...]:
        return "--bootstrap-server", self.kafka.bootstrap(self.way), *self.file

    @property
    def at_zookeeper(self) -> tuple[str, ...]:
        return "--zookeeper", self.kafka.zookeeper, *self.file

    @property
    def keys(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.kafka.bootstrap(self.way), **self.kafka.client_keys(self.way)}


def _topics(scene: Scene) -> None:
    ok("topics", "create", "--topic", scene.topic, "--partitions", "2", *scene.at)
    assert scene.topic in ok("topics", "list", *scene.at).split()
    assert "PartitionCount: 2" in ok("topics", "describe", "--topic", scene.topic, *scene.at)


def _records(scene: Scene) -> None:
    ok("produce", "--topic", scene.topic, *scene.at, stdin="\n".join(_PRODUCED) + "\n")
    _consumed(scene, "--from-beginning", *scene.at)


def _consumed(scene: Scene, *options: str) -> None:
    read = ok("consume", "--topic", scene.topic, "--max-messages", _COUNT, *options)
    assert sorted(read.splitlines()) == sorted(_PRODUCED)


def _broker_group(scene: Scene) -> None:
    group = ("--group", f"g-{scene.topic}")
    _consumed(scene, "--type", "broker", *group, "--from-beginning", *scene.at)
    assert group[1] in ok("groups", "list", *scene.at)
    rows = json.loads(ok("groups", "describe", *group, "--json", *scene.at))
    assert sum(row["current_offset"] for row in rows) == len(_PRODUCED) and not sum(row["lag"] for row in rows)
    ok("groups", "reset-offsets", *group, "--topic", scene.topic, "--to-earliest", "--execute", *scene.at)


def _zookeeper_group(scene: Scene) -> None:
    group = ("--group", f"z-{scene.topic}")
    _consumed(scene, "--type", "zookeeper", *group, "--from-beginning", *scene.at_zookeeper)
    ok("groups", "describe", *group, *scene.at_zookeeper)


def _offsets(scene: Scene) -> None:
    rows = json.loads(ok("offsets", "--topic", scene.topic, "--json", *scene.at))
    assert len(rows) == 2


def _watch(scene: Scene) -> None:
    ok("watch", "--group", f"g-{scene.topic}", "--timeout-ms", "1000", *scene.at)


def _partitions(scene: Scene) -> None:
    moves = ok("reassign", "--generate", "0", "--topic", scene.topic, *scene.at)
    assert json.loads(moves)["partitions"]
    ok("reassign", "--list", *scene.at)
    ok("elect-leaders", "--topic", scene.topic, *scene.at)


def _recorder(scene: Scene) -> None:
    """The recorder requests the ends of partitions, which are not in ZooKeeper, from the brokers."""
    kept = scene.folder / f"{scene.topic}.sqlite"
    command = ["web", *scene.at_zookeeper, "--record", str(kept), "--port", "0", "--json"]
    process = subprocess.Popen([sys.executable, "-m", "kafka_zk", *command], stdout=subprocess.DEVNULL)

    def has_ends() -> bool:
        with contextlib.suppress(Exception):  # the file is not there yet
            return f"ends {scene.topic}" in Recording(kept, read_only=True).samples.names("ends ", 1000)
        return False

    try:
        wait_until(has_ends, _TIMEOUT_S, "a sample of the topic")
    finally:
        process.terminate()
        process.wait(_TIMEOUT_S)
    assert not _with_secrets(scene.folder)


def _clients(scene: Scene) -> None:
    options: dict[str, Any] = {"group.id": f"p-{scene.topic}", "auto.offset.reset": "earliest",
                               "consumer.timeout.ms": 1000 * _TIMEOUT_S}  # fmt: skip
    with (
        BlockingProducer(None, **scene.keys) as producer,
        BlockingConsumer([scene.topic], **scene.keys, **options) as consumer,
    ):
        producer.send(scene.topic, b"last").result(_TIMEOUT_S)
        assert b"last" in (record.value for record in consumer)


def _security(scene: Scene) -> None:
    """A broker of KRaft applies a change a moment after it was stored."""
    user, topic = f"u-{scene.topic}", f"acl-{scene.topic}"
    ok("users", "add", user, *scene.at, stdin=f"{PASSWORD}\n")
    ok("quotas", "set", "--user", user, "producer_byte_rate=1048576", *scene.at)
    ok("acls", "add", "--topic", topic, "--allow-principal", f"User:{user}", "--operation", "read", *scene.at)
    wait_until(
        lambda: all(word in ok("users", "explain", user, *scene.at) for word in ("SCRAM-SHA-512", "1048576", topic)),
        _TIMEOUT_S, "the user, the quota and the ACL",
    )  # fmt: skip
    ok("acls", "remove", "--topic", topic, *scene.at)
    ok("quotas", "remove", "--user", user, *scene.at)
    ok("users", "remove", user, *scene.at)
    wait_until(lambda: user not in ok("users", "list", *scene.at), _TIMEOUT_S, "the user's end")


def _extract(scene: Scene) -> None:
    """Executors read the records from the brokers, the driver finds them in ZooKeeper."""
    lake = scene.folder / f"lake-{scene.topic}"
    group = ("--group", f"x-{scene.topic}", "--topic", scene.topic, "--to", str(lake))
    said = ok("extract", *scene.at_zookeeper, *group, "--master", "local[2]", "--json")
    assert scene.spark.read.parquet(str(lake)).count() == len(_PRODUCED), said
    assert not _with_secrets(lake)


def _spark(scene: Scene) -> None:
    options = {f"kafka.{key}": value for key, value in scene.keys.items()}
    topic = f"spark-{scene.topic}"
    written = scene.spark.range(100).selectExpr("cast(id as string) as value").write.format("kafka_zk")
    written.options(**options, topic=topic).mode("append").save()
    assert scene.spark.read.format("kafka_zk").options(**options, subscribe=topic).load().count() == 100


def _with_secrets(folder: Path) -> list[Path]:
    """The files that a command wrote with a password in them."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [path for path in files if any(each.encode() in path.read_bytes() for each in (PASSWORD, STORE_PASSWORD))]


#: In this order: the first creates the topic.
ROWS: Mapping[str, Callable[[Scene], None]] = {
    "`topics`": _topics,
    "`produce`, `consume`": _records,
    "`consume --type broker`, `groups`": _broker_group,
    "`consume --type zookeeper`, `groups --zookeeper`": _zookeeper_group,
    "`offsets`": _offsets,
    "`watch`": _watch,
    "`reassign`, `elect-leaders`": _partitions,
    "`acls`, `users`, `quotas`": _security,
    "`web --record`": _recorder,
    "`extract`": _extract,
    "Python producer and consumer": _clients,
    "Spark source and sink": _spark,
}
NEEDS_ZOOKEEPER = ("`consume --type zookeeper`, `groups --zookeeper`", "`web --record`", "`extract`")


def rows(kafka: SecuredKafka) -> Iterator[tuple[str, Callable[[Scene], None]]]:
    """The rows that can work with this broker."""
    return ((name, row) for name, row in ROWS.items() if kafka.zookeeper or name not in NEEDS_ZOOKEEPER)


def table() -> str:
    """In Markdown: the releases of Apache Kafka with which each row works, by way to log in."""
    heads = [f"SASL_SSL, {way}" if way in WAYS[:4] else way for way in WAYS]
    lines = [f"| | {' | '.join(heads)} |", f"|{'---|' * (1 + len(WAYS))}"]
    for name in ROWS:
        releases = ORACLE_VERSION if name in NEEDS_ZOOKEEPER else f"{ORACLE_VERSION}, {NEWEST_VERSION}"
        lines.append(f"| {name} |{f' {releases} |' * len(WAYS)}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
