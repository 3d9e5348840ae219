"""What a log asks of the log manager, for files outside its directory."""

from typing import Protocol

from kafka_zk.base.types import TopicPartition


class LogOwner(Protocol):
    """Methods return when done; exceptions propagate to the log's caller."""

    def log_became_dirty(self, tp: TopicPartition) -> None:
        """Called when the first record after a flush was appended."""

    def snapshot_is_large(self, tp: TopicPartition) -> None:
        """A log is about to roll: write its many producers' snapshot gradually (``LargeSnapshots``)."""

    def recovery_point_went_back(self, tp: TopicPartition) -> None:
        """A truncation has moved ``recovery_point`` or ``cleaned_offset`` back, and cut nothing yet: make both durable,
        because other records will follow. Raises: OSError."""

    def log_start_offset_is_needed(self, tp: TopicPartition) -> None:
        """Write the log start offset unless the one on disk is current: the first segment is about to be deleted, and
        no longer tells where the log begins. Raises: OSError."""

    def recovery_point_is_needed(self, tp: TopicPartition, offset: int) -> None:
        """Write the recovery point if the one on disk is below ``offset``: gaps between segments must be below it
        (docs/decisions/0018). Raises: OSError."""
