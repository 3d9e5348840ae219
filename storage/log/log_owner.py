"""What a log asks of its owner, the log manager: things that concern files beyond the log's own directory."""

from typing import Protocol

from kafka_zk.base.types import TopicPartition


class LogOwner(Protocol):
    """Each method returns when the work is done; the log's method that called it raises what it raises."""

    def log_became_dirty(self, tp: TopicPartition) -> None:
        """The first record after a flush was appended."""

    def snapshot_is_large(self, tp: TopicPartition) -> None:
        """The log is about to roll and has many producers: write their snapshot by and by (``LargeSnapshots``)."""

    def recovery_point_went_back(self, tp: TopicPartition) -> None:
        """A truncation moved ``recovery_point`` or ``cleaned_offset`` back and has cut nothing yet: make both durable,
        since other records will follow. Raises: OSError."""

    def recovery_point_is_needed(self, tp: TopicPartition, offset: int) -> None:
        """The recovery point on disk must reach ``offset``, as the one in memory has: it alone explains a gap between
        two segments before that offset (docs/decisions/0018). Raises: OSError."""
