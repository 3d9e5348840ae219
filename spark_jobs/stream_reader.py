"""The streaming read (``readStream``): the planner of the batch read over Spark's checkpoint.

Spark's checkpoint is the truth about what was processed. With ``group.id`` and ``zookeeper.connect`` the group's
offsets in ZooKeeper are its mirror, so that lag tools see the stream; they are written when Spark asks for the batch
after, since then everything before is done. ``Trigger.AvailableNow`` reads up to the ends that the partitions have when
it starts.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from kafka_zk.spark_jobs import offset_ranges
from kafka_zk.spark_jobs.cluster_client import EARLIEST, LATEST
from kafka_zk.spark_jobs.errors import DataLoss
from kafka_zk.spark_jobs.offset_specs import format_offsets, offsets_of
from kafka_zk.spark_jobs.options import SourceOptions
from kafka_zk.spark_jobs.range_partition import RangePartition, read_range
from kafka_zk.storage.types import TopicPartition

if TYPE_CHECKING:
    from kafka_zk.spark_jobs.driver import Driver

Offsets = dict[TopicPartition, int]


class KafkaZkStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in the driver for as long as the query; sent to executors without its connections."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._driver: Driver | None = None
        self._last_ends: Offsets | None = None  # where Trigger.AvailableNow stops
        self._mirrored: Offsets = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_driver": None}

    def initialOffset(self) -> dict[str, Any]:
        return format_offsets(self._connected().starting_offsets())

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        starts = offsets_of(start)
        self._mirror(starts)
        ends = dict(self._latest() if self._last_ends is None else self._last_ends)
        self._check_loss(starts, ends)
        begun = self._with_new_partitions(starts, ends)
        if isinstance(limit, ReadMaxRows):
            ranges = offset_ranges.limited(offset_ranges.between(begun, ends), limit.max_rows)
            ends = {**begun, **{each.tp: each.until_offset for each in ranges}}
        return format_offsets(ends)

    def prepareForTriggerAvailableNow(self) -> None:
        self._last_ends = self._latest()

    def reportLatestOffset(self) -> dict[str, Any]:
        return format_offsets(self._latest())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        driver = self._connected()
        ends = offsets_of(end)
        ranges = offset_ranges.between(self._with_new_partitions(offsets_of(start), ends), ends)
        return [RangePartition(each, driver.fetch_settings) for each in driver.tasks(ranges)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_range(partition)

    def commit(self, end: dict[str, Any]) -> None:
        self._mirror(offsets_of(end))

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.close()
            self._driver = None

    def _connected(self) -> "Driver":
        if self._driver is None:
            from kafka_zk.spark_jobs.driver import Driver

            self._driver = Driver(self._options)
        return self._driver

    def _latest(self) -> Offsets:
        driver = self._connected()
        return driver.brokers.offsets(dict.fromkeys(driver.partitions(), LATEST))

    def _with_new_partitions(self, starts: Mapping[TopicPartition, int], ends: Offsets) -> Offsets:
        """A start for every partition that has an end; one that is new is read from its beginning."""
        new = [tp for tp in ends if tp not in starts]
        begun = self._connected().brokers.offsets(dict.fromkeys(new, EARLIEST)) if new else {}
        return {**{tp: offset for tp, offset in starts.items() if tp in ends}, **begun}

    def _check_loss(self, starts: Mapping[TopicPartition, int], ends: Offsets) -> None:
        """A partition that is gone or shorter than what was read is loss: an error, or it stays where it is."""
        behind = [tp for tp, start in starts.items() if ends.get(tp, -1) < start]
        there = [tp for tp in behind if tp in ends]
        log_ends = self._connected().brokers.log_ends(there) if there else {}
        for tp in behind:
            start = starts[tp]
            if log_ends.get(tp, -1) >= start:
                ends[tp] = start  # what lies there belongs to open transactions
                continue
            if self._options.fail_on_data_loss:
                told = f"ends at offset {log_ends[tp]} now" if tp in ends else "is gone"
                raise DataLoss(f"{tp} was read up to offset {start} and {told} (failOnDataLoss=false goes on)")
            if tp in ends:
                ends[tp] = start

    def _mirror(self, offsets: Offsets) -> None:
        if not (self._options.group_id and self._options.zookeeper):
            return
        changed = {tp: offset for tp, offset in offsets.items() if self._mirrored.get(tp) != offset}
        if changed:
            self._connected().mirror(changed)
            self._mirrored.update(changed)
