"""A recording's summary for the page."""

from kafka_zk.recorder.recording.documents import Document
from kafka_zk.recorder.recording.recording import Recording


def summary(recording: Recording, described: str) -> Document:
    """The summary of a recording that no longer grows. ``described``: what was recorded."""
    first_ms, last_ms = recording.entries.times() or (0, 0)
    return {
        "count": recording.entries.count,
        "first_ms": first_ms,
        "last_ms": last_ms,
        "live": False,
        "source": described,
        "used_bytes": recording.used_bytes,
        "kept": "",
        "misses": recording.misses,
        "known_brokers": [],
        "can_break": False,
        "can_ask": False,
        "can_act": False,
        "shows_values": False,
        "problem": "",
        "names": recording.spans.members,
    }
