"""The responses that ZooKeeper may give when connections break, derived from all trees that it may have after the
responses that clients received.

A request whose response was lost may or may not have been applied, so it doubles the trees. Each response keeps the
trees that would have given it. The rules are broken if no tree remains. A client that lost a response must ``sync``
before any client continues, because its request may still be in progress.
"""

import copy
from collections.abc import Sequence
from typing import Any

from kafka_zk.registry.client.client import Operation, ZnodeStat
from kafka_zk.registry.client.errors import MultiFailed, RegistryError
from kafka_zk.sim.zookeeper.znode_tree import ZnodeTree


class PossibleTrees:
    """The set of all possible trees. Sessions have small numbers, also in stats."""

    def __init__(self) -> None:
        self._trees = [ZnodeTree()]

    def answered(self, operations: Sequence[Operation], session: int, answer: Any) -> bool:
        """A multi (a single write is a multi of one operation) had this response, in the form of ``plain``; False if no
        tree gives it.
        """
        self._trees = [tree for tree in self._trees if _applied(tree, operations, session) == answer]
        return bool(self._trees)

    def lost(self, operations: Sequence[Operation], session: int) -> None:
        """The result of the operation is unknown."""
        applied = copy.deepcopy(self._trees)
        for tree in applied:
            _applied(tree, operations, session)
        self._trees = _different(self._trees + applied)

    def read(self, path: str, answer: Any) -> bool:
        """The results of ``exists`` and ``get`` of a client that has synced; False if no tree gives them."""
        self._trees = [tree for tree in self._trees if seen_in(tree, path) == answer]
        return bool(self._trees)

    def __str__(self) -> str:
        return "\n".join(str({path: seen_in(tree, path) for path in tree.paths()}) for tree in self._trees)


def seen_in(tree: ZnodeTree, path: str) -> Any:
    if tree.exists(path) is None:
        return None
    data, stat = tree.get(path)
    return data, plain(stat, {})


def plain(value: Any, owners: dict[int, int]) -> Any:
    """A response without zxids and times. ``owners``: session id -> the session's small number."""
    if isinstance(value, ZnodeStat):
        owner = value.ephemeral_owner
        return (value.version, value.cversion, owners.get(owner, owner), value.data_length, value.num_children)
    if isinstance(value, list | tuple):
        return [plain(each, owners) for each in value]
    return value


def failure(error: RegistryError) -> Any:
    """The error as an outcome."""
    return (error.index, type(error.cause).__name__) if isinstance(error, MultiFailed) else type(error).__name__


def _applied(tree: ZnodeTree, operations: Sequence[Operation], session: int) -> Any:
    try:
        return plain(tree.apply_multi(operations, session, 0)[0], {})
    except RegistryError as error:
        return failure(error)


def _different(trees: list[ZnodeTree]) -> list[ZnodeTree]:
    """Returns the trees without duplicates: a lost request that would have failed changed nothing."""
    known = {str([(path, seen_in(tree, path)) for path in tree.paths()]): tree for tree in reversed(trees)}
    return list(known.values())
