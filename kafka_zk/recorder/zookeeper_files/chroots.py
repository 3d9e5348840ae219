"""Finds the Kafka clusters in a ZooKeeper: the chroots below which their znodes are."""

import re
from collections.abc import Iterator
from pathlib import Path

from kafka_zk.recorder.zookeeper_files.snapshot import oldest_snapshot
from kafka_zk.recorder.zookeeper_files.transaction_log import Created, DataSet, Deleted, TransactionLogFollower

_OF_KAFKA = re.compile(r"(.*?)/(?:brokers/ids|brokers/topics|controller_epoch)(?:/|$)")
_MOST_TRANSACTIONS = 100_000
_MOST_BYTES = 64 << 20


def chroots(data_dir: Path, snapshot_dir: Path) -> list[str]:
    """The chroots in the oldest snapshot and in the beginning of the log; "" for a cluster without chroot.

    Raises: OSError.
    """
    return sorted({found[1] for path in _paths(data_dir, snapshot_dir) if (found := _OF_KAFKA.match(path))})


def _paths(data_dir: Path, snapshot_dir: Path) -> Iterator[str]:
    snapshot = oldest_snapshot(snapshot_dir, 0)
    if snapshot is not None:
        yield from snapshot.znodes
    for transaction in TransactionLogFollower(data_dir).read(_MOST_TRANSACTIONS, _MOST_BYTES):
        for operation in transaction.operations:
            if isinstance(operation, Created | DataSet | Deleted):
                yield operation.path
