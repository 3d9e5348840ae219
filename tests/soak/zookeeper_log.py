"""All values that a ZooKeeper server's znodes had, and the sessions that wrote them, from the server's transaction
log."""

from pathlib import Path
from typing import NamedTuple

from kafka_zk.recorder.zookeeper_files.transaction_log import Created, DataSet, transactions


class Write(NamedTuple):
    """A session created a znode, or set its data."""

    zxid: int
    time_ms: int
    session: int
    path: str
    data: bytes


def writes(data_dir: Path) -> list[Write]:
    """All creations and changes, oldest first, of a server's ``dataDir``."""
    return [
        Write(each.zxid, each.time_ms, each.session, operation.path, operation.data or b"")
        for each in transactions(data_dir)
        for operation in each.operations
        if isinstance(operation, Created | DataSet)
    ]
