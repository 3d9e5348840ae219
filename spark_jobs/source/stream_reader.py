"""The streaming read (``readStream``): the batch read's planner with Spark's checkpoint.

Spark's checkpoint is authoritative. With ``group.id`` and ``zookeeper.connect``, the group's offsets in ZooKeeper
mirror it, so that lag tools see the stream. They are written when Spark requests the next batch, because everything
before has then been processed. ``Trigger.AvailableNow`` reads up to the ends at its start.

The checkpoint also identifies the topic of each offset (``stream_offsets.py``). A topic that was deleted and recreated
is data loss, whatever its length, because its first records would be skipped. With failOnDataLoss=false the stream
starts at the beginning of the new topic.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.errors import DataLoss
from kafka_zk.spark_jobs.source import offset_ranges
from kafka_zk.spark_jobs.source.cluster_client import EARLIEST, LATEST
from kafka_zk.spark_jobs.source.options import SourceOptions
from kafka_zk.spark_jobs.source.range_partition import RangePartition, read_range
from kafka_zk.spark_jobs.source.stream_offsets import StreamOffsets

if TYPE_CHECKING:
    from kafka_zk.spark_jobs.source.driver import Driver

Offsets = dict[TopicPartition, int]


class KafkaZkStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in the driver as long as the query; executors get a copy without its connections."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._driver: Driver | None = None
        self._last_ends: StreamOffsets | None = None  # the end for Trigger.AvailableNow
        self._ids: dict[str, str] = {}  # topic ids at the last request for offsets
        self._mirrored: Offsets = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_driver": None}

    def initialOffset(self) -> dict[str, Any]:
        driver = self._connected()
        return self._with_ids(driver.starting_offsets).document()

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        starts = StreamOffsets.of(start)
        self._mirror(starts.offsets)
        latest = self._latest() if self._last_ends is None else self._last_ends
        ends = dict(latest.offsets)
        recreated = self._recreated(starts, latest.ids)
        self._check_loss({tp: each for tp, each in starts.offsets.items() if tp.topic not in recreated}, ends)
        begun = self._with_new_partitions(starts, latest._replace(offsets=ends))
        if isinstance(limit, ReadMaxRows):
            ranges = offset_ranges.limited(offset_ranges.between(begun, ends), limit.max_rows)
            ends = {**begun, **{each.tp: each.until_offset for each in ranges}}
        return StreamOffsets(ends, latest.ids).document()

    def prepareForTriggerAvailableNow(self) -> None:
        self._last_ends = self._latest()

    def reportLatestOffset(self) -> dict[str, Any]:
        return self._latest().document()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a batch. A batch planned before a topic was recreated reads nothing from the new topic."""
        driver = self._connected()
        ends = StreamOffsets.of(end)
        gone = self._recreated(ends, driver.topic_ids(ends.ids))
        there = {tp: offset for tp, offset in ends.offsets.items() if tp.topic not in gone}
        begun = self._with_new_partitions(StreamOffsets.of(start), ends._replace(offsets=there))
        ranges = offset_ranges.between(begun, there)
        return [RangePartition(each, driver.fetch_settings) for each in driver.tasks(ranges)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_range(partition)

    def commit(self, end: dict[str, Any]) -> None:
        self._mirror(StreamOffsets.of(end).offsets)

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.close()
            self._driver = None

    def _connected(self) -> "Driver":
        if self._driver is None:
            from kafka_zk.spark_jobs.source.driver import Driver

            self._driver = Driver(self._options)
        return self._driver

    def _latest(self) -> StreamOffsets:
        driver = self._connected()
        return self._with_ids(lambda: driver.brokers.offsets(dict.fromkeys(driver.partitions(), LATEST)))

    def _with_ids(self, ask: Callable[[], Offsets]) -> StreamOffsets:
        """Ask for offsets and topic ids, and ask again if a topic is recreated in between."""
        while True:
            offsets = ask()
            ids = self._connected().topic_ids({tp.topic for tp in offsets})
            if ids == self._ids:
                return StreamOffsets(offsets, ids)
            self._ids = ids

    def _recreated(self, read: StreamOffsets, ids: Mapping[str, str]) -> set[str]:
        found = read.recreated(ids)
        if found and self._options.fail_on_data_loss:
            raise DataLoss(
                f"topic {min(found)} was deleted and recreated since the stream read it "
                "(failOnDataLoss=false starts at its beginning)"
            )
        return found

    def _with_new_partitions(self, starts: StreamOffsets, ends: StreamOffsets) -> Offsets:
        """The start of each partition; a new partition starts at its beginning."""
        recreated = starts.recreated(ends.ids)
        kept = {tp: offset for tp, offset in starts.offsets.items() if tp in ends.offsets and tp.topic not in recreated}
        new = [tp for tp in ends.offsets if tp not in kept]
        return {**kept, **(self._connected().brokers.offsets(dict.fromkeys(new, EARLIEST)) if new else {})}

    def _check_loss(self, starts: Mapping[TopicPartition, int], ends: Offsets) -> None:
        """A partition that is missing or shorter than the read position is data loss: raise, or keep its offset."""
        behind = [tp for tp, start in starts.items() if ends.get(tp, -1) < start]
        there = [tp for tp in behind if tp in ends]
        log_ends = self._connected().brokers.log_ends(there) if there else {}
        for tp in behind:
            start = starts[tp]
            if log_ends.get(tp, -1) >= start:
                ends[tp] = start  # the offsets between belong to open transactions
                continue
            if self._options.fail_on_data_loss:
                told = f"ends at offset {log_ends[tp]} now" if tp in ends else "is gone"
                raise DataLoss(f"{tp} was read up to offset {start} and {told} (failOnDataLoss=false continues)")
            if tp in ends:
                ends[tp] = start

    def _mirror(self, offsets: Offsets) -> None:
        if not (self._options.group_id and self._options.zookeeper):
            return
        changed = {tp: offset for tp, offset in offsets.items() if self._mirrored.get(tp) != offset}
        if changed:
            self._connected().mirror(changed)
            self._mirrored.update(changed)
