"""One entry of ``log.dirs``: its lock, its ``meta.properties``, its checkpoints, the marker of a clean shutdown.

Tests: tests/storage/test_log_manager.py.
"""

import fcntl
import json
import os
import threading

from storage import checkpoints
from storage.errors import CorruptCheckpoint, LogDirLocked
from storage.filenames import (
    CLEAN_SHUTDOWN,
    LOCK,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
    is_deleted_dir,
    parse_partition_dir,
)
from storage.files import remove_file, sync_path, write_atomically
from storage.meta_properties import check_meta_properties
from storage.types import TopicPartition

_locked_here: set[str] = set()  # POSIX locks do not keep two holders in one process apart


class LogDir:
    """A log directory that this process holds the lock of, from ``open`` to ``close``.

    ``log_count``: how many logs its owner has in it.
    """

    __slots__ = ("_lock", "_write_lock", "log_count", "path")

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.log_count = 0
        self._lock = -1
        self._write_lock = threading.Lock()

    def open(self, broker_id: int, cluster_id: str) -> None:
        """Create the directory if need be, lock it, check whose it is.

        Raises: LogDirLocked, InconsistentLogDir; OSError if the directory cannot be used at all.
        """
        os.makedirs(self.path, exist_ok=True)
        identity = os.path.realpath(self.path)
        if identity in _locked_here:
            raise LogDirLocked(f"{self.path} is in use by this very process")
        descriptor = os.open(f"{self.path}/{LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise LogDirLocked(f"{self.path} is in use by another process") from None
        self._lock = descriptor
        _locked_here.add(identity)
        try:
            check_meta_properties(self.path, broker_id, cluster_id)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give the lock back. The file stays: removing it would let two processes lock different files."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
            _locked_here.discard(os.path.realpath(self.path))

    # -- contents -----------------------------------------------------------------------------------------------

    def partitions(self) -> list[tuple[TopicPartition, str]]:
        """(partition, directory) of every log that lies here."""
        found = []
        for entry in os.scandir(self.path):
            topic_partition = parse_partition_dir(entry.name)
            if topic_partition is not None and entry.is_dir():
                found.append((topic_partition, entry.path))
        return sorted(found)

    def deleted_dirs(self) -> list[str]:
        """Directories of partitions whose deletion has begun."""
        return [entry.path for entry in os.scandir(self.path) if is_deleted_dir(entry.name) and entry.is_dir()]

    # -- checkpoints --------------------------------------------------------------------------------------------

    def read_recovery_points(self) -> dict[TopicPartition, int]:
        return self._read(RECOVERY_POINT_CHECKPOINT)

    def read_log_start_offsets(self) -> dict[TopicPartition, int]:
        return self._read(LOG_START_OFFSET_CHECKPOINT)

    def read_high_watermarks(self) -> dict[TopicPartition, int]:
        return self._read(REPLICATION_CHECKPOINT)

    def _read(self, name: str) -> dict[TopicPartition, int]:
        """A checkpoint; a damaged one counts as empty, which costs a longer recovery but loses nothing."""
        try:
            return checkpoints.read_offsets(f"{self.path}/{name}")
        except CorruptCheckpoint:
            return {}

    def write_recovery_points(self, offsets: dict[TopicPartition, int]) -> None:
        self._write(RECOVERY_POINT_CHECKPOINT, offsets)

    def write_log_start_offsets(self, offsets: dict[TopicPartition, int]) -> None:
        self._write(LOG_START_OFFSET_CHECKPOINT, offsets)

    def write_high_watermarks(self, offsets: dict[TopicPartition, int]) -> None:
        self._write(REPLICATION_CHECKPOINT, offsets)

    def _write(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        """Replace a checkpoint; may be called from a pool thread while the owner shuts down.

        After ``close`` it is too late: what the owner wrote at its end is newer.
        """
        with self._write_lock:
            if self._lock >= 0:
                checkpoints.write_offsets(f"{self.path}/{name}", offsets)

    # -- clean shutdown -----------------------------------------------------------------------------------------

    def had_clean_shutdown(self) -> bool:
        return os.path.exists(f"{self.path}/{CLEAN_SHUTDOWN}")

    def write_clean_shutdown(self, broker_epoch: int) -> None:
        """Leave the marker that spares the next start a recovery (KIP-966 puts the broker epoch into it)."""
        content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        write_atomically(f"{self.path}/{CLEAN_SHUTDOWN}", content.encode())

    def remove_clean_shutdown(self) -> None:
        """Take the marker away, durably: from now on a crash needs a recovery."""
        if self.had_clean_shutdown():
            remove_file(f"{self.path}/{CLEAN_SHUTDOWN}")
            sync_path(self.path)
