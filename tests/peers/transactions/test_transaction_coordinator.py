"""Transactions of other clients, Kafka's tools for them, and a folder of transactional ids that changes between
brokers.

Each test has the same result with Apache Kafka 3.9.1 and kafka-zk.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from tests.peers import jars, java, targets
from tests.peers.logs.test_group_folders import _is_registered
from tests.peers.processes import wait_until
from tests.peers.targets import APACHE_KAFKA, KAFKA_ZK, Target

pytestmark = pytest.mark.peers

_OVERRIDES = {
    "zookeeper.session.timeout.ms": "3000",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
_CHROOT = "transaction-folders"
_TOOL = "org.apache.kafka.tools.TransactionsCommand"
_DUMP = "kafka.tools.DumpLogSegments"
_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_FORMATTER = "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"


@pytest.fixture(params=targets.NAMES)
def cluster(request: pytest.FixtureRequest, peer_zookeeper: str, tmp_path: Path) -> Iterator[Target]:
    """One broker of each kind, with a topic of two partitions."""
    chroot = f"{request.node.originalname}-{request.param}"
    started = targets.start(request.param, peer_zookeeper, tmp_path, overrides=_OVERRIDES, chroot=chroot)
    started.create_topic("t", partitions=2)
    yield started
    complaints = started.stop()
    assert not complaints, "\n".join(complaints)


def _producer(target: Target, transactional_id: str, timeout_ms: int = 60_000) -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": target.bootstrap, "transactional.id": transactional_id, "log_level": 0,
            "transaction.timeout.ms": timeout_ms, "message.timeout.ms": min(timeout_ms, 60_000),
        }
    )  # fmt: skip
    producer.init_transactions(60)
    return producer


def _write(producer: confluent_kafka.Producer, *values: bytes) -> None:
    """Write a value to each partition in turn."""
    producer.begin_transaction()
    for number, value in enumerate(values):
        producer.produce("t", value, partition=number % 2)
    assert producer.flush(60) == 0


def _committed(target: Target, count: int) -> list[bytes]:
    """The sorted values of a read_committed reader, once it has read ``count`` records."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": target.bootstrap, "group.id": "reader", "isolation.level": "read_committed",
            "enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": "earliest", "log_level": 0,
        }
    )  # fmt: skip
    consumer.assign([confluent_kafka.TopicPartition("t", number, 0) for number in (0, 1)])
    values: list[bytes] = []
    ends: set[int] = set()

    def has_read() -> bool:
        for message in consumer.consume(1000, 0.1):
            if message.error():
                ends.add(message.partition() or 0)
            else:
                ends.discard(message.partition() or 0)
                values.append(message.value() or b"")
        return len(values) >= count and len(ends) == 2

    try:
        wait_until(has_read, 60, f"{count} committed records")
    finally:
        consumer.close()
    return sorted(values)


def _transactions(target: Target, *arguments: str) -> list[list[str]]:
    """The output of ``kafka-transactions.sh``, without the parts that differ from run to run."""
    run = java.run_tool(jars.ORACLE_VERSION, _TOOL, ["--bootstrap-server", target.bootstrap, *arguments])
    text = re.sub(r"\b\d{10,}\b", "TIME", run.text)
    return [line.split() for line in text.splitlines() if line.strip()]


def test_librdkafka_commits_and_aborts(cluster: Target) -> None:
    """Readers get only committed records. Another producer of the id fences the first one and aborts its open
    transaction.
    """
    producer = _producer(cluster, "x")
    _write(producer, b"a", b"b", b"c")
    producer.commit_transaction(60)
    _write(producer, b"lost", b"lost")
    producer.abort_transaction(60)
    _write(producer, b"open", b"open")
    successor = _producer(cluster, "x")
    _write(successor, b"d")
    successor.commit_transaction(60)
    with pytest.raises(confluent_kafka.KafkaException) as fenced:
        producer.commit_transaction(60)
    assert fenced.value.args[0].code() == confluent_kafka.KafkaError._FENCED
    assert _committed(cluster, 4) == [b"a", b"b", b"c", b"d"]


def test_a_transaction_of_a_producer_that_went_is_aborted_in_time(cluster: Target) -> None:
    _write(_producer(cluster, "gone", timeout_ms=2_000), b"never")
    other = _producer(cluster, "other")
    _write(other, b"a", b"b")
    other.commit_transaction(60)
    assert _committed(cluster, 2) == [b"a", b"b"]


def test_java_commits(cluster: Target) -> None:
    """Kafka's own performance tool, with a transaction every few records."""
    arguments = [
        "--topic", "t", "--num-records", "2000", "--record-size", "20", "--throughput", "-1",
        "--transactional-id", "perf", "--transaction-duration-ms", "50",
        "--producer-props", f"bootstrap.servers={cluster.bootstrap}",
    ]  # fmt: skip
    assert "2000 records sent" in java.run_tool(jars.ORACLE_VERSION, _PERFORMANCE, arguments).text
    assert len(_committed(cluster, 2_000)) == 2_000


#: The tool's output by target: both must be equal.
_SAID: dict[str, list[list[list[str]]]] = {}


def test_the_tool_says_the_same(cluster: Target) -> None:
    done = _producer(cluster, "done")
    _write(done, b"a", b"b")
    done.commit_transaction(60)
    pending = _producer(cluster, "pending")
    _write(pending, b"c", b"d")
    said = [
        sorted(_transactions(cluster, "list")),
        sorted(_transactions(cluster, "list", "--duration-filter", "0")),
        _transactions(cluster, "describe", "--transactional-id", "done"),
        _transactions(cluster, "describe", "--transactional-id", "pending"),
        _transactions(cluster, "describe-producers", "--topic", "t", "--partition", "0"),
        _transactions(cluster, "find-hanging", "--broker-id", "0", "--max-transaction-timeout", "15"),
        _transactions(cluster, "abort", "--topic", "t", "--partition", "0", "--start-offset", "2"),
        _transactions(cluster, "describe-producers", "--topic", "t", "--partition", "0"),
    ]
    _SAID[cluster.name] = [[_without_durations(line) for line in lines] for lines in said]
    if len(_SAID) == len(targets.NAMES):
        ours, theirs = _SAID[KAFKA_ZK], _SAID[APACHE_KAFKA]
        for mine, expected in zip(ours, theirs, strict=True):
            assert mine == expected


def _without_durations(line: list[str]) -> list[str]:
    """Without times, and how many ms ago they were; the timeout stays."""
    return [word for word in line if word == "60000" or not re.fullmatch(r"TIME|\d{3,9}", word)]


def test_kafkas_formatter_reads_the_log(cluster: Target) -> None:
    """Both brokers give equal states of an id, as the console consumer prints ``__transaction_state``."""
    producer = _producer(cluster, "x")
    _write(producer, b"a", b"b")
    producer.commit_transaction(60)
    _producer(cluster, "x")  # this returns once all earlier records are in the log
    topic = "__transaction_state"
    count = sum(cluster.end_offset(topic, number) for number in range(3))
    run = java.run_tool(
        jars.ORACLE_VERSION, _CONSUMER,
        ["--bootstrap-server", cluster.bootstrap, "--topic", topic, "--from-beginning", "--formatter", _FORMATTER,
         "--max-messages", str(count), "--timeout-ms", "120000"],
    )  # fmt: skip
    records = list(_json_objects(run.text))
    assert [each["key"]["data"] for each in records] == [{"transactionalId": "x"}] * count, run.text
    values = [each["value"]["data"] for each in records]
    found = [
        (status, list(each)[-1]) for status, each in itertools.groupby(values, lambda each: each["transactionStatus"])
    ]
    assert [status for status, _ in found] == [0, 1, 2, 4, 0], "Empty, Ongoing, PrepareCommit, CompleteCommit, Empty"
    assert [value["producerEpoch"] for _, value in found] == [0, 0, 0, 0, 1]
    for status, value in found:
        assert value["transactionTimeoutMs"] == 60_000
        tps = [(each["topic"], sorted(each["partitionIds"])) for each in value["transactionPartitions"] or ()]
        assert tps == ([("t", [0, 1])] if status in (1, 2) else [])


def _json_objects(text: str) -> Iterator[Any]:
    """The JSON objects that follow each other without a gap, from the first one on."""
    decoder, position = json.JSONDecoder(), max(0, text.find("{"))
    while text[position : position + 1] == "{":
        found, position = decoder.raw_decode(text, position)
        yield found


def test_a_folder_changes_hands(peer_zookeeper: str, tmp_path: Path) -> None:
    """The next coordinator continues the transactional ids: epochs count on, open transactions are aborted, and Kafka's
    tool reads both brokers' logs.
    """
    holders = ((KAFKA_ZK, True), (APACHE_KAFKA, False), (KAFKA_ZK, False), (APACHE_KAFKA, True), (KAFKA_ZK, True))
    committed: list[bytes] = []
    for number, (holder, stops) in enumerate(holders):
        target = targets.start(holder, peer_zookeeper, tmp_path, overrides=_OVERRIDES, chroot=_CHROOT)
        if number == 0:
            target.create_topic("t", partitions=2)
        producer = _producer(target, "x")
        values = [b"%d-%d" % (number, each) for each in range(4)]
        _write(producer, *values)
        producer.commit_transaction(60)
        committed += values
        _write(producer, b"open", b"open")
        if stops:
            assert not target.stop()
        else:
            target.brokers[0].kill()
            wait_until(lambda: not _is_registered(f"{peer_zookeeper}/{_CHROOT}"), 30, "the end of the session")
    target = targets.start(APACHE_KAFKA, peer_zookeeper, tmp_path, overrides=_OVERRIDES, chroot=_CHROOT)
    _producer(target, "x")
    assert _committed(target, len(committed)) == sorted(committed)
    assert not target.stop()
    epochs = _epochs(tmp_path)
    assert epochs == sorted(epochs)
    assert epochs[-1] == 2 * len(holders)


def _epochs(folder: Path) -> list[int]:
    """The epochs of the transactional id, as Apache Kafka's own tool reads them from the log."""
    epochs = []
    for log in folder.rglob("__transaction_state-*/*.log"):
        if log.stat().st_size:
            run = java.run_tool(jars.ORACLE_VERSION, _DUMP, ["--files", str(log), "--transaction-log-decoder"])
            epochs += [int(found) for found in re.findall(r"transactionalId=x.*producerEpoch:(\d+)", run.text)]
    return epochs
