"""The znodes of a ZooKeeper at the end of its transaction log: the newest snapshot, and every later transaction."""

from pathlib import Path
from typing import NamedTuple

from kafka_zk.recorder.zookeeper_files.snapshot import Znode, newest_snapshot
from kafka_zk.recorder.zookeeper_files.transaction_log import (
    Created,
    DataSet,
    Deleted,
    SessionClosed,
    Transaction,
    TransactionLogFollower,
)

_AT_ONCE = 10_000


class LastState(NamedTuple):
    """``zxid``: the last transaction that was found. ``znodes``: without the root and ``/zookeeper``.

    ``damage``: sentences about later transactions that are missing. ``has_log``: False if there is no log file.
    """

    zxid: int
    znodes: dict[str, Znode]
    damage: tuple[str, ...] = ()
    has_log: bool = True


def read_last_state(data_dir: Path, data_log_dir: Path | None = None) -> LastState | None:
    """None if there is no complete snapshot. ``data_log_dir``: ZooKeeper's ``dataLogDir``, by default its ``dataDir``.

    Nothing is written; the server may run. Raises: OSError.
    """
    snapshot = newest_snapshot(data_dir)
    if snapshot is None:
        return None
    znodes, zxid = dict(snapshot.znodes), snapshot.zxid
    log = TransactionLogFollower(data_log_dir or data_dir)
    while transactions := log.read(_AT_ONCE):
        for transaction in transactions:
            if transaction.zxid > snapshot.zxid:
                zxid = max(zxid, transaction.zxid)
                _apply(znodes, transaction)
    return LastState(zxid, znodes, tuple(log.damage_after(snapshot.zxid)), log.has_files)


def _apply(znodes: dict[str, Znode], transaction: Transaction) -> None:
    """A snapshot may already contain the transaction."""
    for operation in transaction.operations:
        match operation:
            case Created(path, data, ephemeral):
                session = transaction.session if ephemeral else 0
                znodes[path] = Znode(data, 0, transaction.zxid, transaction.zxid, transaction.time_ms, session)
            case DataSet(path, data, version):
                if path in znodes:
                    znodes[path] = znodes[path]._replace(
                        data=data, version=version, mzxid=transaction.zxid, mtime_ms=transaction.time_ms
                    )
            case Deleted(path):
                znodes.pop(path, None)
            case SessionClosed(paths):
                for path in _of_session(znodes, transaction.session) if paths is None else paths:
                    znodes.pop(path, None)


def _of_session(znodes: dict[str, Znode], session: int) -> list[str]:
    return [path for path, znode in znodes.items() if znode.session == session]
