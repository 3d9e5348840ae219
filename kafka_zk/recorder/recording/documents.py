"""Znodes and changes as JSON documents, for recordings and the page. Pure."""

import json
from typing import Any

from kafka_zk.recorder.recording.znode_tree import Change
from kafka_zk.recorder.zookeeper_files.snapshot import Znode
from kafka_zk.registry.znodes.secrets import masked, may_hold_secrets

Document = dict[str, Any]


def text(data: bytes | None) -> str | None:
    """Invalid UTF-8 becomes lone surrogates, which ``data_of`` restores."""
    return None if data is None else data.decode(errors="surrogateescape")


def storable(told: str) -> str:
    """SQLite rejects lone surrogates, which traces may contain."""
    return told.encode(errors="replace").decode()


def data_of(told: str | None) -> bytes | None:
    return None if told is None else told.encode(errors="surrogateescape")


def znode_document(znode: Znode | None) -> list[Any] | None:
    """A list, which is shorter than an object, in the order of ``Znode``: recordings hold many znodes."""
    return None if znode is None else [text(znode.data), *znode[1:]]


def znode_of(document: list[Any] | None) -> Znode | None:
    return None if document is None else Znode(data_of(document[0]), *document[1:])


def shown_znode(path: str, document: list[Any] | None) -> Znode | None:
    """Secrets are masked (recordings of earlier versions contain them)."""
    znode = znode_of(document)
    return None if znode is None else znode._replace(data=masked(path, znode.data))


def change_document(change: Change) -> Document:
    return {"path": change.path, "before": znode_document(change.before), "after": znode_document(change.after)}


def without_secrets(path: str, told: str) -> str:
    """``told``: the JSON of an entry (recordings of earlier versions contain secrets)."""
    if not may_hold_secrets(path):
        return told
    document = json.loads(told)
    for moment in ("before", "after"):
        if znode := document.get(moment):
            znode[0] = text(masked(path, data_of(znode[0])))
    return json.dumps(document)


def change_of(document: Document) -> Change:
    return Change(document["path"], znode_of(document["before"]), znode_of(document["after"]))
