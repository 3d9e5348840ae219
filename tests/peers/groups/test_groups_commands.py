"""``kafka-zk groups`` prints the same about groups of Apache Kafka 3.9.1 brokers as about groups of kafka-zk
brokers.
"""

from __future__ import annotations

import contextlib
import io
import re
from contextlib import closing
from pathlib import Path

import confluent_kafka
import pytest

from kafka_zk.cli.main import run
from kafka_zk.storage.records.record_batch import RecordBatchBuilder
from tests.peers import targets, wire_probe
from tests.peers.processes import ProcessFailed, wait_until

pytestmark = pytest.mark.peers

_PARTITIONS = 2
_FIRST_TIMESTAMP_MS = 1_700_000_000_000
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_OF_G = ("--group", "g")
_RESET = ("reset-offsets", *_OF_G, "--type", "broker", "--topic", "t")

_BEFORE = [
    ("list",),
    ("migrate", *_OF_G, "--to", "broker", "--dry-run"),
    ("migrate", *_OF_G, "--to", "broker"),
    ("migrate", *_OF_G, "--to", "broker"),
    ("list",),
    ("describe", *_OF_G),
    ("delete", *_OF_G),
    (*_RESET, "--shift-by", "-1", "--execute"),
    (*_RESET, "--to-datetime", str(_FIRST_TIMESTAMP_MS + 5), "--execute"),
    (*_RESET, "--by-duration", "P1D"),
    (*_RESET, "--to-current", "--export"),
    ("migrate", *_OF_G, "--to", "zookeeper"),
    ("delete-offsets", *_OF_G, "--type", "broker", "--topic", "t:1"),
    ("describe",),
]
_LIVE = ("--group", "live", "--type", "broker")
_WITH_MEMBER = [
    ("list",),
    ("describe", *_LIVE),
    ("delete", *_LIVE),
    ("reset-offsets", *_LIVE, "--all-topics", "--to-earliest", "--execute"),
    ("delete-offsets", *_LIVE, "--topic", "t"),
    ("migrate", "--group", "live", "--to", "zookeeper"),
]
_AFTER = [
    ("delete", *_LIVE),
    ("delete", *_OF_G, "--type", "broker"),
    ("describe", *_OF_G, "--type", "broker"),
    ("list",),
]


def _said(target: targets.Target, words: tuple[str, ...]) -> tuple[int, str, str]:
    """Returns the exit code, stdout and stderr."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = run(["groups", *words, "--zookeeper", target.zookeeper])
    told = [line for line in errors.getvalue().splitlines() if not line.startswith("waiting for ")]
    return code, _UUID.sub("UUID", out.getvalue()), _UUID.sub("UUID", "\n".join(told))


def _write_records(target: targets.Target) -> None:
    for partition in range(_PARTITIONS):
        builder = RecordBatchBuilder()
        for number in range(10):
            builder.append(_FIRST_TIMESTAMP_MS + number, b"key", b"value")
        assert wire_probe.produce(target.ports[0], "t", partition, bytes(builder.build())) == (0, 0)


def _member(target: targets.Target) -> confluent_kafka.Consumer:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": target.bootstrap, "group.id": "live", "client.id": "reader", "log_level": 3,
            "enable.auto.commit": False,
        }
    )  # fmt: skip
    consumer.subscribe(["t"])
    wait_until(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == _PARTITIONS, 60, "the assignment")
    consumer.commit(offsets=[confluent_kafka.TopicPartition("t", 0, 4)], asynchronous=False)
    return consumer


def _perform(target: targets.Target, offsets: Path) -> list[tuple[tuple[str, ...], tuple[int, str, str]]]:
    target.create_topic("t", partitions=_PARTITIONS)
    _write_records(target)
    said = [(words, _said(target, words)) for words in (("import", "--input-file", str(offsets)), *_BEFORE)]
    with closing(_member(target)):
        said += [(words, _said(target, words)) for words in _WITH_MEMBER]
    return said + [(words, _said(target, words)) for words in _AFTER]


def test_groups_says_the_same_of_both(peer_zookeeper: str, tmp_path: Path) -> None:
    """The test covers every verb, the exit codes, and every line."""
    offsets = tmp_path / "offsets"
    offsets.write_text("/consumers/g/offsets/t/0:9\n/consumers/g/offsets/t/1:3\n/consumers/g/offsets/t/7:1\n")
    said = {}
    for name in targets.NAMES:
        try:
            target = targets.start(name, peer_zookeeper, tmp_path / name, chroot=f"groups-commands-{name}")
        except ProcessFailed as failure:
            pytest.fail(str(failure), pytrace=False)
        try:
            said[name] = _perform(target, offsets)
        finally:
            complaints = target.stop()
        assert not complaints, "\n".join(complaints)
    assert said[targets.KAFKA_ZK] == said[targets.APACHE_KAFKA]
    codes = [code for _, (code, _, _) in said[targets.KAFKA_ZK]]
    assert [words[0] for (words, _), code in zip(said[targets.KAFKA_ZK], codes, strict=True) if code] == [
        "delete", "delete", "reset-offsets", "delete-offsets", "migrate", "describe"
    ]  # fmt: skip
