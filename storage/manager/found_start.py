"""Finds where a log that is being opened begins, and whether it is tiered. The log's files decide, even against the
topic's configuration. Pure.

Source: LogLoader.scala@3.9, which relies on the configuration.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.storage.files.errors import InconsistentLogDir
from kafka_zk.storage.files.log_config import NEVER_TIERED, LogConfig


class FoundStart(NamedTuple):
    """What a log's files say about its start. ``checkpointed``: the log start offset in the checkpoint, if any.
    ``local``: the first segment's base offset. ``epochs``: (leader epoch, its start offset)."""

    tp: TopicPartition
    checkpointed: int | None
    local: int
    epochs: Sequence[tuple[int, int]]
    clean_shutdown: bool

    def config(self, config: LogConfig) -> LogConfig:
        """``config``, but tiered if remote storage has records before the local ones. Kafka's tools can disable tiering
        in ZooKeeper, and those records would then be lost.

        Raises: InconsistentLogDir if the broker has no remote storage.
        """
        if config.is_tiered or not self._is_partly_remote or (config.is_compacted and not self.clean_shutdown):
            return config
        if config.remote_log_storage_system_enable:
            return config.tiered()
        if not self.clean_shutdown:
            return config  # after a crash, the files may be outdated, and the log may never have been tiered
        raise InconsistentLogDir(
            f"the records {self.checkpointed} to {self.local - 1} of {self.tp} are only in remote storage, and this "
            "broker would lose them: set remote.log.storage.system.enable=true, and then the topic's "
            "remote.storage.enable=true, or delete the topic"
        )

    @property
    def _is_partly_remote(self) -> bool:
        """True if the log start offset and a leader epoch are below the first segment, which occurs only in a tiered
        log."""
        first_epoch_start = next((start for _, start in self.epochs), self.local)
        is_below = self.checkpointed is not None and max(self.checkpointed, first_epoch_start) < self.local
        return is_below and self.tp.topic not in NEVER_TIERED

    def log_start_offset(self, config: LogConfig) -> int:
        """The log start offset; a tiered log's may be before the local records. If the checkpoint is missing, the first
        leader epoch's start replaces it, because epochs are cut at the log start offset. With a later start, retention
        would delete all remote segments before it."""
        if not config.is_tiered:
            return max(self.checkpointed or 0, self.local)
        if self.checkpointed is not None:
            return self.checkpointed
        return min([start for _, start in self.epochs[:1]] + [self.local])
