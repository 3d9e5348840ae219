"""Entries as lines of text. Pure."""

from kafka_zk.recorder.recording.documents import Document
from kafka_zk.recorder.recording.entries import CHANGES, CREATED, SESSION_BEGAN, Entry
from kafka_zk.recorder.recording.session_names import unnamed
from kafka_zk.recorder.timeline.event_codec import UnknownEvent, decode
from kafka_zk.recorder.timeline.sentences import sentence

_MOST_CHARACTERS = 240
_ENDS = {None: "", True: ": it expired", False: ": its client closed it"}
"""How a session ended, which older recordings do not contain."""


def line(entry: Entry) -> str:
    """The entry's sentence, cut to the length of a line."""
    return shortened(_line(entry))


def shortened(told: str) -> str:
    """A sentence, cut to the length of a line."""
    return told if len(told) <= _MOST_CHARACTERS else told[: _MOST_CHARACTERS - 1] + "…"


def title(entry: Entry) -> str:
    """The entry without the znode's data, which the page shows below."""
    return f"{entry.actor} {_change(entry.kind, entry.path, entry.document)}" if entry.kind in CHANGES else line(entry)


def _line(entry: Entry) -> str:
    if entry.kind in CHANGES:
        return f"{_change(entry.kind, entry.path, entry.document)}{_data(entry.document)}"
    if "timeout_ms" in entry.document and entry.kind == SESSION_BEGAN:
        return f"{_session(entry)} began, timeout {entry.document['timeout_ms'] / 1000:g} s"
    if "event" not in entry.document:
        inferred = ", as the end of its last ephemeral znode shows" if entry.document.get("inferred") else ""
        return f"{_session(entry)} ended{inferred or _ENDS[entry.document.get('expired')]}"
    try:
        said = sentence(decode(entry.document))
    except UnknownEvent:
        return entry.kind
    return f"{entry.kind}: {entry.document.get('cause', '')}" if said is None else str(said)


def _change(kind: str, path: str, document: Document) -> str:
    after = document["after"]
    if after is None:
        return f"deleted {path}"
    if kind == CREATED:
        return f"created {path}{' (ephemeral)' if after[5] else ''}"
    return f"set {path} to version {after[1]}"


def _data(document: Document) -> str:
    after = document["after"]
    return "" if after is None else f"  {'null' if after[0] is None else after[0]}"


def _session(entry: Entry) -> str:
    unknown = unnamed(entry.document["session"])
    return unknown if entry.actor == unknown else f"the session of {entry.actor}"
