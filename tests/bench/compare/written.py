"""The writes of a cluster to the place where it keeps its state, counted in its files.

ZooKeeper's transaction log has each write of a broker; a multi is one transaction with several operations. The metadata
log of KRaft has records, of which those that only mark the passing of time are ignored.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import NamedTuple

from kafka_zk.recorder.zookeeper_files.transaction_log import SessionClosed, SessionCreated, transactions
from kafka_zk.storage.records.record_batch import iter_batches
from kafka_zk.storage.records.record_decoder import decode_keys_and_values

_NO_OP_RECORD = 20  # NoOpRecord.json@4.3: one every 500 ms
_TIMEOUT_S = 5


class Written(NamedTuple):
    """``writes``: transactions, or batches. ``changes``: operations on znodes, or records. ``bytes``: only for KRaft's
    log. ``requests``: all requests to ZooKeeper, including reads and pings; None for KRaft.
    """

    writes: int
    changes: int
    bytes: int | None
    requests: int | None

    def since(self, before: Written) -> Written:
        """The difference to an earlier count."""
        return Written(*(None if a is None or b is None else a - b for a, b in zip(self, before, strict=True)))  # type: ignore[arg-type]


def of_zookeeper(data_dir: Path, port: int) -> Written:
    """Counts no sessions, which come and go with clients. Raises: OSError."""
    changing = [
        [each for each in transaction.operations if not isinstance(each, SessionCreated | SessionClosed)]
        for transaction in transactions(data_dir)
    ]
    counts = [len(operations) for operations in changing if operations]
    return Written(len(counts), sum(counts), None, _packets_received(port))


def _packets_received(port: int) -> int:
    """Source: the four-letter word ``mntr``."""
    said = b""
    with socket.create_connection(("127.0.0.1", port), _TIMEOUT_S) as connection:
        connection.sendall(b"mntr")
        while chunk := connection.recv(1 << 16):
            said += chunk
    return packets_in(said.decode())


def packets_in(mntr: str) -> int:
    """The number in the response to ``mntr``. Raises: ValueError if it is missing there."""
    for line in mntr.splitlines():
        if line.startswith("zk_packets_received"):
            return int(float(line.split()[1]))
    raise ValueError("mntr does not say how many packets ZooKeeper has received")


def of_kraft(folder: Path) -> Written:
    """Counts the log of a node that is in sync. Raises: OSError, CorruptRecord."""
    writes = changes = size = 0
    for segment in sorted(folder.glob("*.log")):
        data = segment.read_bytes()
        for position, header in iter_batches(data):
            if header.is_control:
                continue
            values = [value for _, _, value in decode_keys_and_values(data, position) if value]
            records = sum(not is_no_op(value) for value in values)
            if records:
                writes, changes, size = writes + 1, changes + records, size + header.size_bytes
    return Written(writes, changes, size, None)


def is_no_op(value: bytes) -> bool:
    """Whether a metadata record only marks the passing of time. Its type comes after the frame's version."""
    return value[1] == _NO_OP_RECORD
