"""Why an entry has no recorded cause, in a sentence. Pure."""

from kafka_zk.recorder.recording.entries import CHANGES, SESSION_BEGAN, SESSION_ENDED, Entry
from kafka_zk.recorder.recording.session_names import unnamed

_ACT = "A person did this, on the page or with kafka-zk break. The chain of causes begins here."
_BEGAN = "A process connected to ZooKeeper. Nothing in this recording started it; perhaps it was started by hand."
_ENDED = (
    "Its process closed the session, or ZooKeeper heard nothing from it for the whole session timeout. No recorded act "
    "explains it: look at what the process last did, and at its log."
)
_UNTRACED = "It was written by a client that reports no steps of its own, such as a command-line tool."
_WRITTEN = "Its writer reported nothing shortly before, so only the writer is known, not the reason."
_REPORTED = "No recorded event caused it. Its process gives this reason: {}."
_UNKNOWN = "No recorded event caused it: the cause was outside the recorded processes, or a timeout."


def reason(entry: Entry) -> str:
    """The reason for an entry without a cause."""
    if entry.kind == "OperatorActed":
        return _ACT
    if entry.kind == SESSION_BEGAN:
        return _BEGAN
    if entry.kind == SESSION_ENDED:
        return _ENDED
    if entry.kind in CHANGES:
        return _UNTRACED if entry.actor == unnamed(entry.session) else _WRITTEN
    told = entry.document.get("cause")
    return _REPORTED.format(told) if isinstance(told, str) and told else _UNKNOWN
