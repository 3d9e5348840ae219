"""Reads records of a topic for the page, and sends one. Keys and values are never stored or recorded."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_zk.base.integers import NATURAL_INT32, NATURAL_INT64, decimal_integer
from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.groups.group_kinds import GroupKind
from kafka_zk.cli.page.connection import PageConnection
from kafka_zk.cli.page.plans import Plans
from kafka_zk.cli.page.shown_records import bytes_of, check_format, record_document
from kafka_zk.cli.page.unclear import EXPECTED, perhaps
from kafka_zk.cli.terminal.command_config import secured
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.nearest import missing
from kafka_zk.clients.connection.config import format_bootstrap_servers
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.recorder.web.operations import Act, Done

if TYPE_CHECKING:
    from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
    from kafka_zk.clients.consumer.records import ConsumerRecord
    from kafka_zk.recorder.recording.documents import Document

PLAN, SEND = "plan-record", "send-record"
MOST_RECORDS = 50
READ_TIMEOUT_S = 10.0
_POLL_MS = 500
_FETCHES: Mapping[str, Any] = {
    "max_partition_fetch_bytes": 1 << 18, "fetch_max_bytes": 1 << 22, "max_poll_records": MOST_RECORDS
}  # fmt: skip
_TIMEOUTS: Mapping[str, Any] = {"default_api_timeout_ms": 30_000, "request_timeout_ms": 30_000}


class RecordPlan(NamedTuple):
    """A record that is sent when the person confirms it; ``partition`` None: chosen by the key. ``repr`` shows no
    content."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None

    def __repr__(self) -> str:
        return f"RecordPlan({self.topic!r}, {self.partition!r}, ...)"


class TopicMessages:
    """All methods raise CommandFailed, KafkaError and RegistryError with the reason for a refusal.

    Args:
        make_reader, make_producer: called with the keyword arguments of the clients.
    """

    def __init__(
        self,
        connection: PageConnection,
        make_reader: Callable[..., Any] = BlockingReader,
        make_producer: Callable[..., Any] = BlockingProducer,
    ) -> None:
        self._connection = connection
        self._make_reader = make_reader
        self._make_producer = make_producer
        self._plans: Plans[RecordPlan] = Plans()

    def acts(self) -> Mapping[str, Act]:
        return {PLAN: self.plan, SEND: self.carry_out}

    def show(self, query: Mapping[str, str]) -> "Document":
        """At most MOST_RECORDS records of ``topic``, the latest ones by timestamp; without a topic, only the topics.

        ``partition``: "" for all. ``from``: "" for the last records, or an offset at which to begin. ``key_format`` and
        ``value_format``: one of FORMATS.
        """
        topic = query.get("topic", "")
        key_format, value_format = (check_format(query.get(name, "string")) for name in ("key_format", "value_format"))
        begin = _natural(query.get("from"), "from", NATURAL_INT64)
        partition = _natural(query.get("partition"), "partition", NATURAL_INT32)
        with self._connection.open(GroupKind.BROKER) as connected, connected.access.brokers.asked() as admin:
            names = admin.list_topics()
            records: list[ConsumerRecord] = []
            partition_count = 0
            if topic:
                tps = _partitions(admin, topic, names)
                partition_count = len(tps)
                with self._make_reader(**_client(admin), **_FETCHES) as reader:
                    records, is_whole = _read(reader, _chosen(tps, partition), begin)
                if not is_whole:
                    connected.notes.append(f"Not all partitions answered within {READ_TIMEOUT_S:g} s.")
            return {
                "topics": names,
                "topic": topic,
                "partition_count": partition_count,
                "records": [record_document(each, key_format, value_format) for each in records],
                **connected.told(GroupKind.BROKER),
            }

    def plan(self, request: "Document") -> Done:
        """The request has the ``topic``, and ``key`` and ``value`` as text (absent: null) with ``key_format`` and
        ``value_format``; ``partition`` is optional. The answer does not repeat key and value.
        """
        topic, partition = str(request.get("topic", "")), _natural(request.get("partition"), "partition", NATURAL_INT32)
        key, value = (
            bytes_of(topic, _text(request, name), str(request.get(f"{name}_format", "string")))
            for name in ("key", "value")
        )
        with self._connection.open(GroupKind.BROKER) as connected, connected.access.brokers.asked() as admin:
            tps = _partitions(admin, topic, admin.list_topics())
            _chosen(tps, partition)
            told = connected.told(GroupKind.BROKER)
        plan = self._plans.add(RecordPlan(topic, partition, key, value))
        sizes = {"key_bytes": None if key is None else len(key), "value_bytes": None if value is None else len(value)}
        return Done({"plan": plan, "topic": topic, "partition": partition, **sizes, **told})

    def carry_out(self, request: "Document") -> Done:
        """Send the record of the ``plan``, and wait until all in-sync replicas have it."""
        plan = self._plans.take(request.get("plan"))
        with self._connection.open(GroupKind.BROKER) as connected, connected.access.brokers.asked() as admin:
            told = connected.told(GroupKind.BROKER)
            unclear = Done({}, SEND, f"topic {plan.topic}", told["principal"], EXPECTED)
            with self._make_producer(**_client(admin)) as producer, perhaps(unclear):
                sent = producer.send(plan.topic, plan.value, plan.key, plan.partition).result()
        place = f"the record has offset {sent.offset} in {plan.topic}-{sent.partition}"
        answer = {**told, "partition": sent.partition, "offset": sent.offset}
        return Done(answer, SEND, f"topic {plan.topic}", told["principal"], place)


def _client(admin: "BlockingAdmin") -> dict[str, Any]:
    return {
        "bootstrap_servers": format_bootstrap_servers(admin.config.bootstrap_addresses), **secured(), **_TIMEOUTS
    }  # fmt: skip


def _partitions(admin: "BlockingAdmin", topic: str, names: list[str]) -> list[TopicPartition]:
    if topic not in names:
        raise CommandFailed(missing("topic", topic, names))
    return [TopicPartition(topic, each.partition) for each in admin.describe_topics([topic])[topic].partitions]


def _chosen(tps: list[TopicPartition], partition: int | None) -> list[TopicPartition]:
    chosen = tps if partition is None else [tp for tp in tps if tp.partition == partition]
    if not chosen:
        raise CommandFailed(f"there is no partition {partition}: the topic has 0 to {len(tps) - 1}")
    return chosen


def _read(reader: Any, tps: list[TopicPartition], begin: int | None) -> "tuple[list[ConsumerRecord], bool]":
    """Read from ``begin`` on (None: the last records); False if it took too long for some."""
    firsts, ends = reader.beginning_offsets(tps), reader.end_offsets(tps)
    starts = {tp: max(firsts[tp], ends[tp] - MOST_RECORDS if begin is None else begin) for tp in tps}
    until = {tp: ends[tp] if begin is None else min(ends[tp], starts[tp] + MOST_RECORDS) for tp in tps}
    wanted = {tp: start for tp, start in starts.items() if start < until[tp]}
    found: list[ConsumerRecord] = []
    if not wanted:
        return found, True

    def kept(records: "list[ConsumerRecord]") -> "list[ConsumerRecord]":
        """A topic can have thousands of partitions with large records, so the others are dropped after each poll."""
        records = sorted(
            (each for each in records if each.offset < until[each.tp]),
            key=lambda each: (each.timestamp_ms, each.partition, each.offset),
        )
        return records[-MOST_RECORDS:] if begin is None else records[:MOST_RECORDS]

    reader.assign(wanted)
    deadline_s = time.monotonic() + READ_TIMEOUT_S
    is_whole = False
    while not is_whole and time.monotonic() < deadline_s:
        found = kept(found + reader.poll(_POLL_MS))
        is_whole = all(reader.position(tp) >= until[tp] for tp in wanted)
    return found, is_whole


def _natural(given: object, name: str, bounds: range) -> int | None:
    """None if nothing is given."""
    text = "" if given is None else str(given)
    number = decimal_integer(text, bounds) if text else None
    if text and number is None:
        raise CommandFailed(f"{name} must be a number from 0 on, not {text[:40]!r}")
    return number


def _text(request: "Document", name: str) -> str | None:
    found = request.get(name)
    if found is not None and not isinstance(found, str):
        raise CommandFailed(f"{name} must be a text")
    return found
