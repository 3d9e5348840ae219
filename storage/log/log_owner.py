"""A log's requests to the log manager, which owns the files outside the log's directory."""

from typing import Protocol

from kafka_zk.base.types import TopicPartition


class LogOwner(Protocol):
    """Methods return when the request is done; exceptions propagate to the log's caller."""

    def log_became_dirty(self, tp: TopicPartition) -> None:
        """Called when the first record after a flush has been appended."""

    def snapshot_is_large(self, tp: TopicPartition) -> None:
        """Write the snapshot gradually (``LargeSnapshots``), because a log with many producers is about to roll."""

    def recovery_point_went_back(self, tp: TopicPartition) -> None:
        """Make ``recovery_point`` and ``cleaned_offset`` durable, because a truncation has moved one of them back. The
        log is not truncated yet; other records will replace the truncated ones. Raises: OSError."""

    def log_start_offset_is_needed(self, tp: TopicPartition) -> None:
        """Write the log start offset unless the one on disk is current. The first segment, whose name also says where
        the log begins, is about to be deleted. Raises: OSError."""

    def recovery_point_is_needed(self, tp: TopicPartition, offset: int) -> None:
        """Write the recovery point if the one on disk is below ``offset``, because gaps between segments must be below
        it (docs/decisions/0018). Raises: OSError."""
