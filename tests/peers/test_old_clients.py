"""Clients of 0.8.2.2 and 0.10.2.2 beyond the matrix: their console tools, ListOffsets v0, and their errors."""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from typing import Any

import pytest

from tests.peers import jars, java, wire_probe
from tests.peers.clients.base import ClientFailed, Read, Write
from tests.peers.clients.librdkafka import ConfluentConsumer, ConfluentProducer
from tests.peers.clients.old_clients import OldConsumer, OldDriver, OldProducer, timestamps_unknown
from tests.peers.processes import wait_until
from tests.peers.records import Record
from tests.peers.targets import Target

pytestmark = pytest.mark.peers

_LINES = [b"line %d" % number for number in range(20)] + ["größer ✓".encode(), b"x" * 5000]
_TIMESTAMP_MS = 1_700_000_000_000


def _topic(target: Target, **config: str) -> str:
    name = f"old-{uuid.uuid4().hex[:8]}"
    target.create_topic(name, config={key.replace("_", "."): value for key, value in config.items()})
    return name


def _write(target: Target, topic: str, count: int, compression: str = "none", size_bytes: int = 10) -> None:
    """Write each record in a batch of its own."""
    for number in range(count):
        record = Record(b"%d" % number, b"v" * size_bytes, timestamp_ms=_TIMESTAMP_MS + number)
        ConfluentProducer().write(Write(target.bootstrap, topic, 0, compression, [record]))


@pytest.mark.parametrize(
    ("version", "options"),
    [
        (jars.MAGIC_0_VERSION, ()),
        (jars.MAGIC_0_VERSION, ("--sync", "--compression-codec", "gzip")),
        (jars.MAGIC_0_VERSION, ("--new-producer", "--compression-codec", "snappy")),
        (jars.MAGIC_1_VERSION, ("--old-producer", "--compression-codec", "lz4")),
        (jars.MAGIC_1_VERSION, ("--compression-codec", "gzip")),
    ],
    ids=["0.8-default-acks-0", "0.8-sync-gzip", "0.8-new-snappy", "0.10-old-lz4", "0.10-new-gzip"],
)
def test_console_producer_writes_its_lines(target: Target, version: str, options: Sequence[str]) -> None:
    """kafka-console-producer --broker-list: every line arrives, in order where there is one request at a time."""
    topic = _topic(target)
    arguments = ["--broker-list", target.bootstrap, "--topic", topic, *options]
    java.run_tool(version, "kafka.tools.ConsoleProducer", arguments, stdin=b"".join(line + b"\n" for line in _LINES))
    wait_until(lambda: target.end_offset(topic, 0) == len(_LINES), 20, "all lines")
    found = ConfluentConsumer().read(Read(target.bootstrap, topic, 0, 0, len(_LINES)))
    assert [record.value for record in found] == _LINES
    assert {record.key for record in found} == {None}


@pytest.mark.parametrize("version", jars.LEGACY_VERSIONS)
def test_simple_consumer_shell_shows_every_line(target: Target, version: str) -> None:
    """kafka-simple-consumer-shell reads from the earliest offset, with Fetch v0 and v3."""
    topic = _topic(target)
    records = [Record(None, line, timestamp_ms=_TIMESTAMP_MS) for line in _LINES]
    ConfluentProducer().write(Write(target.bootstrap, topic, 0, "lz4", records))
    where = ["--broker-list", target.bootstrap, "--topic", topic, "--partition", "0"]
    shown = java.run_tool(version, "kafka.tools.SimpleConsumerShell", [*where, "--no-wait-at-logend"])
    assert [line for line in shown.stdout.split(b"\n") if line in _LINES] == _LINES


@pytest.mark.parametrize("version", jars.LEGACY_VERSIONS)
def test_get_offset_shell_shows_both_ends(target: Target, version: str) -> None:
    """The test runs GetOffsetShell --time -1 and -2 (Metadata v0, ListOffsets v0)."""
    topic = _topic(target)
    _write(target, topic, 3)
    for time, offset in (("-1", 3), ("-2", 0)):
        options = ["--broker-list", target.bootstrap, "--topic", topic, "--time", time]
        shown = java.run_tool(version, "kafka.tools.GetOffsetShell", options)
        assert shown.text.split() == [f"{topic}:0:{offset}"]


@pytest.fixture(scope="module")
def segmented(target: Target) -> str:
    """A partition of three segments with two records each."""
    topic = _topic(target, segment_bytes="1200")
    _write(target, topic, 6, size_bytes=500)
    return topic


@pytest.mark.parametrize(
    ("time", "count", "expected"),
    [
        (-1, 1, ["0", "6"]),
        (-1, 10, ["0", "6", "4", "2", "0"]),
        (-2, 1, ["0", "0"]),
        (-2, 10, ["0", "0"]),
        (2**62, 10, ["0", "6", "4", "2", "0"]),
        (1, 10, ["0"]),
    ],
)
def test_list_offsets_version_0_counts_segments(
    target: Target, old_drivers: dict[str, OldDriver], segmented: str, time: int, count: int, expected: list[str]
) -> None:
    """The response has the base offsets of all segments and the end, newest first, at most the requested number."""
    for driver in old_drivers.values():
        answer = [field for (field,) in driver.ask("offsets", target.bootstrap, segmented, 0, time, count)]
        assert answer == expected


@pytest.mark.parametrize("fetch_version", range(4))
def test_zstd_has_no_old_form(target: Target, old_drivers: dict[str, OldDriver], fetch_version: int) -> None:
    """Records before the zstd batch are served; then UNSUPPORTED_COMPRESSION_TYPE (76)."""
    topic = _topic(target)
    _write(target, topic, 2)
    _write(target, topic, 1, compression="zstd", size_bytes=5000)
    consumer = OldConsumer(old_drivers[jars.MAGIC_1_VERSION], fetch_version)
    found = consumer.read(Read(target.bootstrap, topic, 0, 0, 2))
    assert [record.key for record in found] == [b"0", b"1"]
    assert _fetch_errors(target, topic, fetch_version, 2) == {76}


@pytest.mark.parametrize("fetch_version", range(4))
@pytest.mark.parametrize(
    ("config", "offset", "error"),
    [({}, 100, 1), ({"message_downconversion_enable": "false"}, 0, 35)],
    ids=["out-of-range", "down-conversion-disabled"],
)
def test_refused_fetch_has_kafkas_error(
    target: Target, config: dict[str, str], offset: int, error: int, fetch_version: int
) -> None:
    """The errors are OFFSET_OUT_OF_RANGE and UNSUPPORTED_VERSION."""
    topic = _topic(target, **config)
    _write(target, topic, 1)
    assert _fetch_errors(target, topic, fetch_version, offset) == {error}


def _fetch_errors(target: Target, topic: str, version: int, offset: int) -> set[int]:
    """The error codes of the leader, without NOT_LEADER_OR_FOLLOWER (6) of other brokers.

    The request is hand-written: with errors 35 and 76, Apache Kafka's response has null records, on which
    SimpleConsumer fails.
    """
    return {wire_probe.fetch_error(port, version, topic, 0, offset) for port in target.ports} - {6}


@pytest.mark.parametrize("version", jars.LEGACY_VERSIONS)
@pytest.mark.parametrize("api", ["scala", "java"])
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_too_big_message_is_refused(
    target: Target, old_drivers: dict[str, OldDriver], version: str, api: str, compression: str
) -> None:
    """max.message.bytes limits the stored size, and the partition stays usable."""
    topic = _topic(target, max_message_bytes="2000")
    producer = OldProducer(old_drivers[version], api, timestamps_unknown)
    hard_to_compress = random.Random(1).randbytes(9000)

    def write(value: bytes) -> None:
        record = Record(b"k", value, timestamp_ms=_TIMESTAMP_MS)
        producer.write(Write(target.bootstrap, topic, 0, compression, [record]))

    with pytest.raises(ClientFailed):
        write(hard_to_compress)
    write(b"small")
    assert target.end_offset(topic, 0) == 1


@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize("version", jars.LEGACY_VERSIONS)
def test_log_append_time_reaches_old_and_new_readers(
    target: Target, old_drivers: dict[str, OldDriver], version: str, timestamp_type: str
) -> None:
    """If the topic's configuration says so, an old producer's messages get the broker's time, and old readers see
    it.
    """
    topic = _topic(target, message_timestamp_type=timestamp_type)
    OldProducer(old_drivers[version], "java", timestamps_unknown).write(
        Write(
            target.bootstrap, topic, 0, "gzip", [Record(b"k", b"1", timestamp_ms=5), Record(b"k", b"2", timestamp_ms=9)]
        )
    )
    read = Read(target.bootstrap, topic, 0, 0, 2)
    new: list[Any] = [record.timestamp_ms for record in ConfluentConsumer().read(read)]
    old = [record.timestamp_ms for record in OldConsumer(old_drivers[jars.MAGIC_1_VERSION], 3).read(read)]
    assert old == new
    if timestamp_type == "LogAppendTime":
        assert len(set(new)) == 1
        assert new[0] > _TIMESTAMP_MS
    else:
        assert new == ([-1, -1] if version == jars.MAGIC_0_VERSION else [5, 9])
