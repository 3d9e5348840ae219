"""What a process of Kafka may reach, and who may read its files."""

from pathlib import Path
from typing import Any

from kafka_zk.migration.rehearsal.kafka_process import KafkaProcess


def test_nothing_but_this_machine_is_reached(tmp_path: Path) -> None:
    unused: Any = type("Unused", (), {"path": "java", "class_path": "x.jar"})()
    node = KafkaProcess("broker 1", tmp_path / "broker-1", unused, unused)
    node.write({"broker.id": 1})
    command = node._process.command
    for protocol in ("socks", "http.", "https."):
        assert {f"-D{protocol}ProxyHost=127.0.0.1", f"-D{protocol}ProxyPort=1"} <= {*command}
    (names,) = (each.partition("=")[2] for each in command if each.startswith("-Djdk.net.hosts.file="))
    assert {line.split()[0] for line in Path(names).read_text().splitlines()} == {"127.0.0.1"}
