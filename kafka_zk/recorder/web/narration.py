"""An entry as a line for people. Pure."""

from kafka_zk.recorder.timeline.event_codec import UnknownEvent, decode
from kafka_zk.recorder.timeline.sentences import sentence
from kafka_zk.recorder.web.documents import Document
from kafka_zk.recorder.web.recording import CHANGED, CHANGES, CREATED, SESSION_BEGAN, Entry
from kafka_zk.recorder.web.session_names import unnamed

_MOST_CHARACTERS = 240


def line(entry: Entry) -> str:
    """What happened, in a few words; never longer than a line should be."""
    told = _line(entry)
    return told if len(told) <= _MOST_CHARACTERS else told[: _MOST_CHARACTERS - 1] + "…"


def _line(entry: Entry) -> str:
    if entry.kind in CHANGES:
        return _change(entry.kind, entry.path, entry.document)
    if "timeout_ms" in entry.document and entry.kind == SESSION_BEGAN:
        return f"{_session(entry)} began, timeout {entry.document['timeout_ms'] / 1000:g} s"
    if "event" not in entry.document:
        return f"{_session(entry)} ended"
    try:
        said = sentence(decode(entry.document))
    except UnknownEvent:
        return entry.kind
    return f"{entry.kind}: {entry.document.get('cause', '')}" if said is None else str(said)


def _change(kind: str, path: str, document: Document) -> str:
    after = document["after"]
    if after is None:
        return f"deleted {path}"
    told = after[0] if after[0] is not None else "null"
    if kind == CREATED:
        return f"created {path}{' (ephemeral)' if after[5] else ''}  {told}"
    return f"{'set' if kind == CHANGED else kind} {path}  version {after[1]}  {told}"


def _session(entry: Entry) -> str:
    """By whose it is, if somebody knows that."""
    nobodys = unnamed(entry.document["session"])
    return nobodys if entry.actor == nobodys else f"the session of {entry.actor}"
