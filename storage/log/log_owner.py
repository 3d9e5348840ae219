"""The interface of a log to the log manager, which owns it, for files outside the log's directory."""

from typing import Protocol

from kafka_zk.base.types import TopicPartition


class LogOwner(Protocol):
    """Every method returns when its work is done. Exceptions propagate to the log's caller."""

    def log_became_dirty(self, tp: TopicPartition) -> None:
        """Called when the first record after a flush was appended."""

    def snapshot_is_large(self, tp: TopicPartition) -> None:
        """Called when a log with many producers is about to roll. Write their snapshot gradually
        (``LargeSnapshots``)."""

    def recovery_point_went_back(self, tp: TopicPartition) -> None:
        """Called when a truncation has moved ``recovery_point`` or ``cleaned_offset`` back, before it cuts anything.
        Make both durable, because other records will follow. Raises: OSError."""

    def recovery_point_is_needed(self, tp: TopicPartition, offset: int) -> None:
        """Write the recovery point to disk if the one there is below ``offset``. A gap between segments must be below
        the recovery point on disk (docs/decisions/0018). Raises: OSError."""
