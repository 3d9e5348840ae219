"""The log of one replica, read from its files, even if its broker is dead."""

from pathlib import Path
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.storage.records.record_batch import iter_batches
from kafka_zk.storage.records.record_decoder import decode_records

_EPOCHS = "leader-epoch-checkpoint"
_HEADER_LINES = 2  # the version and the number of entries


class ReplicaLog(NamedTuple):
    """Values by offset, and the start offset of each leader epoch."""

    records: dict[int, str]
    epochs: dict[int, int]

    def __str__(self) -> str:
        records = ", ".join(f"{offset}: {value}" for offset, value in self.records.items())
        epochs = ", ".join(f"epoch {epoch} from offset {offset}" for epoch, offset in self.epochs.items())
        return f"{records}; {epochs}"


def read_log(log_dir: Path, tp: TopicPartition) -> ReplicaLog:
    """Raises OSError."""
    folder = log_dir / str(tp)
    data = b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))
    records = {
        record.offset: (record.value or b"").decode()
        for position, _ in iter_batches(data)
        for record in decode_records(data, position)
    }
    lines = (folder / _EPOCHS).read_text().splitlines()[_HEADER_LINES:]
    pairs = [line.split() for line in lines]
    return ReplicaLog(records, {int(epoch): int(offset) for epoch, offset in pairs})
