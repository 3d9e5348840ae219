"""A request costs no more than its record, and the check would detect if it did."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_zk.base.events import EventSource, harmless
from kafka_zk.recorder.timeline.trace_file import TraceWriter
from tests.bench import request_cost
from tests.bench.request_cost import KINDS, Cost, OneBroker, complaints

_HOW_TO_RECORD = (
    "If it is meant to cost more, note it and say why in the commit: python -m tests.bench.request_cost --record "
    "(once per Python version)"
)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OneBroker]:
    made = OneBroker(tmp_path)
    yield made
    made.close()


def _on_record(kind: str, measured: Cost) -> Cost:
    """The record of a kind. A Python without a record is compared with the system calls and the memory of the newest
    recorded Python, but not with its opcodes.
    """
    return request_cost.recorded().get(kind) or request_cost.newest_recorded(kind)._replace(opcodes=measured.opcodes)


@pytest.mark.parametrize("kind", KINDS)
def test_a_request_costs_no_more_than_on_record(broker: OneBroker, kind: str) -> None:
    measured = broker.cost(kind)
    assert not complaints(kind, measured, _on_record(kind, measured)), _HOW_TO_RECORD


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_request_costs_the_same_again(broker: OneBroker, kind: str) -> None:
    first, second = broker.cost(kind), broker.cost(kind)
    assert second.opcodes == pytest.approx(first.opcodes, rel=0.02)
    assert second.system_calls == first.system_calls
    assert second.peak_bytes == pytest.approx(first.peak_bytes, rel=0.05)


@pytest.mark.parametrize("kind", ["produce 1 KB", "heartbeat"])
def test_a_broker_that_is_recorded_pays_at_most_three_percent(kind: str, broker: OneBroker, tmp_path: Path) -> None:
    """A trace contains a broker's decisions, not the steps of every request."""
    (tmp_path / "recorded").mkdir()
    writer = TraceWriter(tmp_path / "trace.jsonl", "broker-0")
    recorded = OneBroker(tmp_path / "recorded", EventSource("broker-0", harmless(writer)))
    assert recorded.cost(kind).opcodes <= broker.cost(kind).opcodes * 1.03
    recorded.close()
    writer.close()
    assert (tmp_path / "trace.jsonl").read_text(), "the trace is empty"


def test_a_tenth_more_python_is_noticed(broker: OneBroker) -> None:
    """The added slow-down is a loop, about as long as parsing the request once more."""
    before = broker.cost("produce 1 KB")

    def waste(body: memoryview) -> None:
        for _ in range(before.opcodes // 20):
            len(body)

    broker.extra = waste
    assert "Python opcodes" in "".join(complaints("produce", broker.cost("produce 1 KB"), before))


def test_a_copy_of_the_records_is_noticed(broker: OneBroker) -> None:
    copies = []
    before = broker.cost("produce 64 KB")
    broker.extra = lambda body: copies.append(bytes(body))
    assert "memory" in "".join(complaints("produce", broker.cost("produce 64 KB"), before))


def test_one_more_system_call_is_noticed(broker: OneBroker, tmp_path: Path) -> None:
    before = broker.cost("fetch 64 KB")
    broker.extra = lambda body: os.stat(tmp_path)
    assert "'stat': 1" in "".join(complaints("fetch", broker.cost("fetch 64 KB"), before))


def test_what_became_cheaper_is_no_complaint() -> None:
    record = Cost(1000, {"send": 2}, 5000)
    assert not complaints("any", Cost(500, {"send": 1}, 100), record)
    assert not complaints("any", Cost(1099, {"send": 2}, 5499), record)
    assert len(complaints("any", Cost(1101, {"send": 3}, 5501), record)) == 3
