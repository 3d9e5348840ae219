"""Which dead letters are sent, and that none is missing, without a broker."""

from typing import Any

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.errors import ExtractionFailed
from kafka_zk.spark_jobs.extraction.dead_letters import DeadLetter, send_undone

T0 = TopicPartition("t", 0)


class Producer:
    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, topic: str, value: bytes, *_: Any, **__: Any) -> None:
        self.sent.append(value)

    def flush(self) -> None: ...


def letters(*offsets: int) -> list[DeadLetter]:
    return [DeadLetter(T0, offset, "why", None, b"%d" % offset, (), None) for offset in offsets]


def test_those_below_the_offsets_that_are_done_are_left_out() -> None:
    producer = Producer()
    assert send_undone(producer, "dead", letters(1, 4, 7), 3, {T0: 4}) == 2
    assert producer.sent == [b"4", b"7"]


@pytest.mark.parametrize("found", [(1,), (1, 2, 3)])
def test_a_record_that_was_left_out_and_can_be_decoded_now_stops_the_run(found: tuple[int, ...]) -> None:
    """A registry behind a load balancer may lack a new schema in one request and have it in the next."""
    with pytest.raises(ExtractionFailed, match=f"2 records could not be decoded at first, and {len(found)} a moment"):
        send_undone(Producer(), "dead", letters(*found), 2, {T0: -1})
