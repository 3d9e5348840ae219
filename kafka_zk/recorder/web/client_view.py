"""The clients of a cluster at one moment: connected users, throttles and denials."""

from collections.abc import Collection
from typing import Any

from kafka_zk.recorder.recording.documents import Document
from kafka_zk.recorder.recording.entries import Entries, Entry

MOST_ROWS = 100
MOST_DENIALS = 20


def clients_document(entries: Entries, seq: int, brokers: Collection[str]) -> Document:
    """The page's data about clients after entry ``seq``. ``brokers``: the actors of the brokers that run then."""
    seen = [each for each in entries.clients_seen(seq) if each.actor in brokers]
    return {
        "connected": _rows(seen, "clients"),
        "throttled": _rows(seen, "throttled"),
        "left_out": sum(each.document["left_out"] for each in seen),
        "denied": [{"seq": each.seq, **each.document} for each in entries.denials(seq, MOST_DENIALS)],
    }


def _rows(seen: list[Entry], kind: str) -> list[dict[str, Any]]:
    rows = [{"broker": each.actor, **row} for each in seen for row in each.document[kind]]
    return rows[:MOST_ROWS]
