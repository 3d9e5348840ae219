"""The order of entries: transactions by zxid, and the events of each process in the order of its reports. Pure.

Clocks only decide between different sources. A process or server whose clock goes back does not reorder its own
entries, and an event that names a zxid follows that transaction, whatever its time.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafka_zk.base.events import Event
from kafka_zk.recorder.timeline.trace_file import Traced
from kafka_zk.recorder.zookeeper_files.transaction_log import Transaction


class _Placed(NamedTuple):
    time_us: int
    traced: Traced


def in_order(events: Iterable[Event | Traced], transactions: Iterable[Transaction]) -> Iterator[Traced | Transaction]:
    """Transactions and events in order. At equal times, transactions come first: ZooKeeper's log has no microseconds.

    Args:
        transactions: in their order, by zxid where it is known.
    """
    waiting = list(transactions)
    at, now_us = 0, 0
    for time_us, traced in sorted(_placed(events), key=lambda each: each.time_us):
        while at < len(waiting) and (
            max(now_us, waiting[at].time_ms * 1000) <= time_us or 0 < waiting[at].zxid <= traced.event.zxid
        ):
            now_us = max(now_us, waiting[at].time_ms * 1000)
            yield waiting[at]
            at += 1
        yield traced
    yield from waiting[at:]


def _placed(events: Iterable[Event | Traced]) -> Iterator[_Placed]:
    """Each event at its own time, or at that of the process's previous event if the clock went back."""
    last_us: dict[str, int] = {}
    for each in events:
        traced = each if isinstance(each, Traced) else Traced(each, None)
        event = traced.event
        time_us = max(event.time_ms * 1000 + (traced.microsecond or 0), last_us.get(event.actor, 0))
        last_us[event.actor] = time_us
        yield _Placed(time_us, traced)
