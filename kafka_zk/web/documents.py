"""Znodes and changes as JSON documents, in recordings and for the page. Pure."""

from typing import Any

from kafka_zk.web.znode_tree import Change, Znode

Document = dict[str, Any]


def text(data: bytes | None) -> str | None:
    """Bytes that are no UTF-8 come back by ``data_of``; JSON holds them as lone surrogates."""
    return None if data is None else data.decode(errors="surrogateescape")


def data_of(told: str | None) -> bytes | None:
    return None if told is None else told.encode(errors="surrogateescape")


def znode_document(znode: Znode | None) -> list[Any] | None:
    """A list in the order of ``Znode``: recordings hold many."""
    return None if znode is None else [text(znode.data), *znode[1:]]


def znode_of(document: list[Any] | None) -> Znode | None:
    return None if document is None else Znode(data_of(document[0]), *document[1:])


def change_document(change: Change) -> Document:
    return {"path": change.path, "before": znode_document(change.before), "after": znode_document(change.after)}


def change_of(document: Document) -> Change:
    return Change(document["path"], znode_of(document["before"]), znode_of(document["after"]))
