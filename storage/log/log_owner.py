"""The interface of a log to its owner, the log manager, for files outside the log's own directory."""

from typing import Protocol

from kafka_zk.base.types import TopicPartition


class LogOwner(Protocol):
    """Methods return when their work is done. Their exceptions propagate to the log's caller."""

    def log_became_dirty(self, tp: TopicPartition) -> None:
        """The first record after a flush was appended."""

    def snapshot_is_large(self, tp: TopicPartition) -> None:
        """The log is about to roll and has many producers: write their snapshot gradually (``LargeSnapshots``)."""

    def recovery_point_went_back(self, tp: TopicPartition) -> None:
        """A truncation has moved ``recovery_point`` or ``cleaned_offset`` back, but not cut anything yet. Make both
        durable, because other records will follow. Raises: OSError."""

    def recovery_point_is_needed(self, tp: TopicPartition, offset: int) -> None:
        """The recovery point on disk must reach ``offset``, like the one in memory: only it explains a gap between
        segments before that offset (docs/decisions/0018). Raises: OSError."""
