"""The znodes of a recording at any moment.

*Checkpoints* contain all znodes. To reach a moment, the changes after a checkpoint are applied, or those before it
undone.
"""

import json
import sqlite3
import zlib
from collections.abc import Iterator

from kafka_zk.recorder.recording import documents
from kafka_zk.recorder.recording.documents import change_of, znode_document
from kafka_zk.recorder.recording.entries import SQL_CHANGES, Entries
from kafka_zk.recorder.recording.znode_tree import Change, ZnodeTree
from kafka_zk.recorder.zookeeper_files.snapshot import Znode
from kafka_zk.recorder.zookeeper_files.transaction_log import Transaction

MOST_CHECKPOINT_BYTES = 1 << 29
"""Maximum unpacked size of a checkpoint that is read."""
_LEAST_BETWEEN_CHECKPOINTS = 2_500
SCHEMA = "create table if not exists checkpoints (seq integer primary key, znodes blob);\n"


class ZnodeHistory:
    """The current znodes, and those after any entry.

    Raises: sqlite3.Error.
    """

    def __init__(self, database: sqlite3.Connection, entries: Entries) -> None:
        self._database = database
        self._entries = entries
        self._since_checkpoint = 0
        self._tree, self._at = ZnodeTree(), 0  # the last result of ``after``, and its entry
        self._now = ZnodeTree(self.after(entries.count).znodes)

    @property
    def sessions(self) -> set[int]:
        """The sessions that own an ephemeral znode now, and 0."""
        return {znode.session for znode in self._now.znodes.values()}

    def now(self, path: str) -> Znode | None:
        return self._now.znodes.get(path)

    def take(self, transaction: Transaction) -> list[Change]:
        """Apply a transaction to the current znodes; each of its changes becomes an entry."""
        changes = self._now.take(transaction)
        self._since_checkpoint += len(changes)
        return changes

    def after(self, seq: int) -> ZnodeTree:
        """The znodes after entry ``seq``: read-only, and valid until the next call."""
        seq = max(self._entries.first - 1, min(seq, self._entries.count))
        near, packed = self._database.execute(
            "select seq, znodes from checkpoints where seq <= ? order by seq desc limit 1", (seq,)
        ).fetchone() or (0, None)
        if abs(seq - self._at) > seq - near:
            self._tree, self._at = _unpacked(packed), near
        if seq >= self._at:
            for change in self._changes(self._at + 1, seq, "asc"):
                self._tree.apply(change)
        else:
            for change in self._changes(seq + 1, self._at, "desc"):
                self._tree.apply(change.undone)
        self._at = seq
        return self._tree

    def checkpoint_if_due(self) -> None:
        """Add a checkpoint after enough changes: all checkpoints together are about twice as large as the changes. The
        caller commits.
        """
        if self._since_checkpoint >= max(_LEAST_BETWEEN_CHECKPOINTS, len(self._now.znodes) // 2):
            self._since_checkpoint = 0
            put_checkpoint(self._database, self._entries.count, self._now)

    def begin_after(self, seq: int) -> None:
        """Add a checkpoint after entry ``seq``, and remove earlier ones. The caller commits."""
        tree = self.after(seq)
        self._database.execute("delete from checkpoints where seq <= ?", (seq,))
        put_checkpoint(self._database, seq, tree)

    def _changes(self, first: int, last: int, order: str) -> Iterator[Change]:
        rows = self._database.execute(
            f"select without_secrets(path, doc) from entries where seq between ? and ? and kind in ({SQL_CHANGES}) "
            f"order by seq {order}",
            (first, last),
        )
        return (change_of(json.loads(document)) for (document,) in rows)


def put_checkpoint(database: sqlite3.Connection, seq: int, tree: ZnodeTree) -> None:
    znodes = {path: znode_document(znode) for path, znode in tree.znodes.items()}
    packed = zlib.compress(json.dumps(znodes).encode(), 1)
    database.execute("insert or replace into checkpoints values (?, ?)", (seq, packed))


def _unpacked(packed: bytes | None) -> ZnodeTree:
    znodes = {} if packed is None else json.loads(_decompressed(packed))
    shown = ((path, documents.shown_znode(path, each)) for path, each in znodes.items())
    return ZnodeTree({path: znode for path, znode in shown if znode is not None})


def _decompressed(packed: bytes) -> bytes:
    """Raises: zlib.error, also if it is too large."""
    decompressor = zlib.decompressobj()
    found = decompressor.decompress(packed, MOST_CHECKPOINT_BYTES)
    if not decompressor.eof:
        raise zlib.error(f"the checkpoint is cut off, or has more than {MOST_CHECKPOINT_BYTES} bytes")
    return found
