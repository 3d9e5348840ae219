"""Reads a partition of a coordinator's topic when this broker begins to lead it.

Source: GroupMetadataManager.doLoadGroupsAndOffsets, TransactionStateManager.loadTransactionMetadata@3.9.
"""

from collections.abc import Callable, Iterator

from kafka_zk.base.types import FetchIsolation, TopicPartition
from kafka_zk.broker.replica.manager import ReplicaManager
from kafka_zk.storage.files.errors import StorageError
from kafka_zk.storage.records.record_batch import BatchHeader, iter_batches


def batches_of(
    replicas: ReplicaManager, tp: TopicPartition, buffer_bytes: int, skip: Callable[[int, str], None]
) -> Iterator[tuple[bytes, int, BatchHeader] | None]:
    """The batches of a partition that this broker leads, up to its end: where each lies, and its header; None after
    each read, for others to have their turn.

    Where the log is damaged what comes before counts; ``skip`` is told the offset and what is wrong.
    Raises: ApiError, OSError.
    """
    offset = replicas.partition(tp).leader_log().log_start_offset
    while True:
        try:
            _, found = replicas.read(tp, offset, buffer_bytes, FetchIsolation.LOG_END)
        except StorageError as error:
            return skip(offset, f"{error}; nothing can be read from there on")
        if found.slice is None:
            return None
        try:
            data = found.slice.read()
        except OSError as error:
            replicas.read_failed(tp, found.slice, error)
            raise
        following = offset
        try:
            for position, header in iter_batches(data):
                yield data, position, header
                following = header.next_offset
        except StorageError as error:
            return skip(following, f"{error}; nothing can be read from there on")
        if following == offset:
            return skip(offset, "a batch that does not end; nothing can be read from there on")
        offset = following
        yield None
