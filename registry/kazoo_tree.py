"""Watches on all znodes, of any ZooKeeper that lets us read: kazoo's TreeCache, told as transactions."""

from collections import deque
from typing import Any

from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.recipe.cache import TreeCache, TreeEvent

from kafka_zk.registry.errors import ConnectionTimeout
from kafka_zk.registry.security import NO_SECURITY, Security
from kafka_zk.registry.transaction_log import Created, DataSet, Deleted, Operation, Transaction
from kafka_zk.system.clock import wall_ms

CONNECTION_TIMEOUT_S = 10


class TreeWatcher:
    """What changes below a chroot, from the first look on; close it at the end.

    Of several changes between two reads only the last is seen. Transactions have the znode's mzxid; those that delete,
    for which nobody can ask any more, have 0. Their session is that of an ephemeral znode, else 0.

    Args:
        zookeeper: a connection string, with its chroot.
        security: who we are; without TLS.
    Raises: ConnectionTimeout.
    """

    def __init__(self, zookeeper: str, security: Security = NO_SECURITY) -> None:
        digest, sasl = security.digest, security.sasl
        self._client = KazooClient(
            zookeeper,
            read_only=True,
            auth_data=[("digest", f"{digest.username}:{digest.password}")] if digest else None,
            sasl_options=sasl and {"mechanism": "DIGEST-MD5", "username": sasl.username, "password": sasl.password},
        )
        self._seen: deque[Transaction] = deque()
        try:
            self._client.start(CONNECTION_TIMEOUT_S)
        except KazooTimeoutError as error:
            raise ConnectionTimeout(f"ZooKeeper at {zookeeper} does not answer") from error
        self._cache = TreeCache(self._client, "/")
        self._cache.listen(self._changed)
        self._cache.start()

    def read(self) -> list[Transaction]:
        """What came since the last call."""
        return [self._seen.popleft() for _ in range(len(self._seen))]

    def close(self) -> None:
        self._cache.close()
        self._client.stop()
        self._client.close()

    def _changed(self, event: Any) -> None:
        """On a thread of kazoo's."""
        node = event.event_data
        if node is None or node.path == "/":
            return
        if event.event_type == TreeEvent.NODE_REMOVED:
            self._seen.append(Transaction(0, wall_ms(), 0, (Deleted(node.path),)))
            return
        stat = node.stat
        operation: Operation = DataSet(node.path, node.data, stat.version)
        if event.event_type == TreeEvent.NODE_ADDED:
            operation = Created(node.path, node.data, bool(stat.ephemeralOwner))
        self._seen.append(Transaction(stat.mzxid, stat.mtime, stat.ephemeralOwner, (operation,)))
