"""The page reads a bounded number of records, and sends exactly the record that was planned."""

import weakref
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.page import topic_messages as module
from kafka_zk.cli.page.connection import PageConnection
from kafka_zk.cli.page.topic_messages import MOST_RECORDS, RecordPlan, TopicMessages
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.clients.connection.errors import KafkaTimeoutError
from kafka_zk.clients.consumer.records import ConsumerRecord
from kafka_zk.recorder.web.operations import PerhapsDone
from tests.kafka_zk.cli.page.pages import Access, Opened

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Brokers(Access):
    """Brokers with the topic t of two partitions."""

    config = SimpleNamespace(bootstrap_addresses=[("h", 1)])

    def describe_topics(self, names: list[str]) -> dict[str, Any]:
        return {"t": SimpleNamespace(partitions=[SimpleNamespace(partition=number) for number in (0, 1)])}


class Client:
    """A reader of logs from 10 to 200 and from 0 to 3, and a producer. ``silent``: partitions that do not answer."""

    def __init__(self, silent: tuple[TopicPartition, ...] = ()) -> None:
        self.firsts, self.ends = {T0: 10, T1: 0}, {T0: 200, T1: 3}
        self.positions: dict[TopicPartition, int] = {}
        self.sent: list[tuple[Any, ...]] = []
        self.silent = silent

    def __call__(self, **options: Any) -> "Client":
        assert options["bootstrap_servers"] == "h:1"
        return self

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *error: object) -> None: ...

    def beginning_offsets(self, tps: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.firsts[tp] for tp in tps}

    def end_offsets(self, tps: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.ends[tp] for tp in tps}

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        self.positions = dict(starts)

    def position(self, tp: TopicPartition) -> int:
        return self.positions[tp]

    def poll(self, timeout_ms: int) -> list[ConsumerRecord]:
        records = []
        for tp, position in self.positions.items():
            if position < self.ends[tp] and tp not in self.silent:
                record = ConsumerRecord(tp.topic, tp.partition, position, position, b"k", b"v", (), -1, False)
                records.append(record)
                self.positions[tp] += 1
        return records

    def send(self, topic: str, value: Any, key: Any, partition: int | None) -> Any:
        self.sent.append((topic, value, key, partition))
        return SimpleNamespace(result=lambda: SimpleNamespace(partition=partition or 0, offset=200))


def messages(client: Client) -> TopicMessages:
    return TopicMessages(cast(PageConnection, Opened(Brokers())), client, client)


def places(told: dict[str, Any]) -> list[tuple[int, int]]:
    return [(each["partition"], each["offset"]) for each in told["records"]]


def test_the_last_records_are_read_and_not_more() -> None:
    told = messages(Client()).show({"topic": "t"})
    assert places(told) == [(0, offset) for offset in range(200 - MOST_RECORDS, 200)]
    assert (told["partition_count"], told["topics"], told["notes"]) == (2, ["t"], [])
    assert places(messages(Client()).show({"topic": "t", "partition": "1"})) == [(1, 0), (1, 1), (1, 2)]


class ManyPartitions(Client):
    """Each poll returns a thousand large records. ``most``: the number of bytes that were held between two polls."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[weakref.ref[Any]] = []
        self.most = 0

    def poll(self, timeout_ms: int) -> list[ConsumerRecord]:
        self.most = max(self.most, sum(each() is not None for each in self.held))
        records = super().poll(timeout_ms)
        for number, record in enumerate(records):
            value = Value(b"x" * 1_000)
            records[number] = record._replace(value=value)
            self.held.append(weakref.ref(value))
        return records


class Value(bytearray):
    """The value of a record; it can be referenced weakly."""


def test_no_more_records_are_held_than_are_shown() -> None:
    client = ManyPartitions()
    client.firsts, client.ends = {T0: 0, T1: 0}, {T0: 100, T1: 100}
    assert len(messages(client).show({"topic": "t"})["records"]) == MOST_RECORDS
    assert 0 < client.most <= MOST_RECORDS + 2, "those of the last poll are not yet dropped"


def test_reading_begins_at_an_offset_or_at_the_first_that_is_left() -> None:
    told = messages(Client()).show({"topic": "t", "partition": "0", "from": "3"})
    assert places(told) == [(0, offset) for offset in range(10, 10 + MOST_RECORDS)]
    assert places(messages(Client()).show({"topic": "t", "partition": "1", "from": "2"})) == [(1, 2)]
    assert places(messages(Client()).show({"topic": "t", "partition": "1", "from": "3"})) == []


def test_without_a_topic_no_record_is_read() -> None:
    assert messages(Client()).show({})["records"] == []


def test_a_partition_that_does_not_answer_delays_the_rest_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    times_s = iter(range(100))
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: float(next(times_s))))
    opened = Opened(Brokers())
    client = Client(silent=(T0,))
    told = TopicMessages(cast(PageConnection, opened), client, client).show({"topic": "t"})
    assert places(told) == [(1, 0), (1, 1), (1, 2)]
    assert opened.notes == ["Not all partitions answered within 10 s."]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ({"topic": "u"}, "no topic u"),
        ({"topic": "t", "partition": "2"}, "there is no partition 2: the topic has 0 to 1"),
        ({"topic": "t", "partition": "-1"}, "partition must be a number from 0 on, not '-1'"),
        ({"topic": "t", "from": "x"}, "from must be a number from 0 on, not 'x'"),
        ({"topic": "t", "value_format": "avro"}, "'avro' is not a format"),
    ],
)
def test_what_cannot_be_shown_is_a_sentence(query: dict[str, str], reason: str) -> None:
    with pytest.raises(CommandFailed, match=reason):
        messages(Client()).show(query)


def test_a_record_is_planned_and_then_sent_once_and_neither_answer_nor_record_has_its_content() -> None:
    client = Client()
    acts = messages(client)
    planned = acts.plan({"topic": "t", "partition": 1, "value": "top secret"})
    assert client.sent == [] and planned.event() is None
    assert (planned.answer["key_bytes"], planned.answer["value_bytes"], planned.answer["partition"]) == (None, 10, 1)
    done = acts.carry_out({"plan": planned.answer["plan"]})
    assert client.sent == [("t", b"top secret", None, 1)]
    assert (done.action, done.target, done.expected) == ("send-record", "topic t", "the record has offset 200 in t-1")
    assert "secret" not in f"{planned}{done}{done.event()}"
    with pytest.raises(CommandFailed, match="carried out already"):
        acts.carry_out({"plan": planned.answer["plan"]})
    assert "secret" not in repr(RecordPlan("t", None, b"secret", b"secret"))


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ({"topic": "u", "value": "x"}, "no topic u"),
        ({"topic": "t", "value": "x", "partition": 9}, "there is no partition 9"),
        ({"topic": "t", "value": "x", "value_format": "long"}, "1 characters cannot be written as long"),
        ({"topic": "t", "value": 7}, "value must be a text"),
    ],
)
def test_what_cannot_be_sent_is_a_sentence(request_: dict[str, Any], reason: str) -> None:
    with pytest.raises(CommandFailed, match=reason):
        messages(Client()).plan(request_)


def test_a_record_that_may_have_been_sent_is_recorded_without_its_content() -> None:
    class Silent(Client):
        def send(self, topic: str, value: Any, key: Any, partition: int | None) -> Any:
            raise KafkaTimeoutError("no broker answered")

    acts = messages(Silent())
    planned = acts.plan({"topic": "t", "value": "top secret"})
    with pytest.raises(PerhapsDone, match="look before you repeat it") as failed:
        acts.carry_out({"plan": planned.answer["plan"]})
    event = failed.value.done.event()
    assert event is not None and (event.action, event.target) == ("send-record", "topic t")
    assert "secret" not in f"{failed.value}{event}"
