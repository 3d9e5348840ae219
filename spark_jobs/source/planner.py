"""The driver's part of a read: computes offset ranges without fetching records.

It has the rules of Spark's own source (KafkaOffsetReaderConsumer, KafkaOffsetRangeCalculator): offsets in JSON name
every partition; a timestamp after the newest record is an error for the start (``startingOffsetsByTimestampStrategy``),
and means the end of the log for the end.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.errors import DataLoss, OptionError
from kafka_zk.spark_jobs.source import offset_ranges
from kafka_zk.spark_jobs.source import options as source_options
from kafka_zk.spark_jobs.source.cluster_client import EARLIEST, LATEST, NO_OFFSET, ClientSettings
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange
from kafka_zk.spark_jobs.source.offset_specs import AtOffsets, AtTime, Committed, Earliest, Latest, OffsetSpec
from kafka_zk.spark_jobs.source.options import SourceOptions, kafka_number
from kafka_zk.spark_jobs.source.range_settings import FetchSettings

Offsets = dict[TopicPartition, int]
ReadCommitted = Callable[[Iterable[TopicPartition]], Mapping[TopicPartition, int]]


class Brokers(Protocol):
    """Implemented by ``cluster_client.ClusterClient``."""

    def partition_counts(self, topics: Iterable[str] | None = None) -> dict[str, int]: ...

    def topic_names(self) -> list[str]: ...

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> Offsets: ...

    def log_ends(self, tps: Iterable[TopicPartition]) -> Offsets: ...


def partitions(options: SourceOptions, brokers: Brokers) -> list[TopicPartition]:
    """The subscribed partitions, sorted. Raises OptionError if one does not exist."""
    names = None if options.pattern else {*options.topics, *(tp.topic for tp in options.partitions)}
    counts = _partition_counts(names, brokers)
    if options.partitions:
        absent = [tp for tp in options.partitions if tp.partition >= counts[tp.topic]]
        if absent:
            raise OptionError(
                f"assign: there is no partition {absent[0]}, {absent[0].topic} has {counts[absent[0].topic]}"
            )
        return list(options.partitions)
    return sorted(
        TopicPartition(topic, number)
        for topic, count in counts.items()
        if options.wants(topic)
        for number in range(count)
    )


def tps(topics: Iterable[str], brokers: Brokers) -> list[TopicPartition]:
    """All partitions of ``topics``, sorted. Raises OptionError if a topic does not exist."""
    counts = _partition_counts(set(topics), brokers)
    return sorted(TopicPartition(topic, number) for topic, count in counts.items() for number in range(count))


def _partition_counts(names: set[str] | None, brokers: Brokers) -> dict[str, int]:
    counts = brokers.partition_counts(names)
    if missing := sorted((names or set()) - counts.keys()):
        nearest = difflib.get_close_matches(missing[0], brokers.topic_names(), 1)
        raise OptionError(f"there is no topic {missing[0]}{f'; did you mean {nearest[0]}?' if nearest else ''}")
    return counts


def plan(options: SourceOptions, brokers: Brokers, committed: ReadCommitted) -> list[OffsetRange]:
    """The ranges of a batch read, not yet split. Raises: OptionError, DataLoss, FetchFailed."""
    wanted = partitions(options, brokers)
    starts = starting_offsets(options, brokers, committed, wanted)
    ends = ending_offsets(options, brokers, wanted)
    _check_order(options, brokers, starts, ends)
    ranges = offset_ranges.between(starts, ends)
    if options.max_records_per_run is not None:
        ranges = offset_ranges.limited(ranges, options.max_records_per_run)
    return ranges


def tasks(options: SourceOptions, ranges: list[OffsetRange]) -> list[tuple[OffsetRange, ...]]:
    pieces = offset_ranges.split(ranges, options.min_partitions, options.max_records_per_partition)
    return offset_ranges.grouped(pieces, options.records_per_shared_partition)


def starting_offsets(
    options: SourceOptions, brokers: Brokers, committed: ReadCommitted, wanted: list[TopicPartition]
) -> Offsets:
    """Raises: OptionError."""
    spec = options.starting
    match spec:
        case Committed():
            known = committed(wanted)
            rest = brokers.offsets({tp: EARLIEST for tp in wanted if tp not in known})
            return {**known, **rest}
        case AtTime():
            found = brokers.offsets(_times("startingOffsetsByTimestamp", spec, wanted))
            late = [tp for tp, offset in found.items() if offset == NO_OFFSET]
            if late and not options.strategy_latest:
                raise OptionError(
                    f"the starting time is after the newest record of {min(late)} "
                    "(startingOffsetsByTimestampStrategy=latest starts at its end)"
                )
            return {**found, **brokers.offsets(dict.fromkeys(late, LATEST))}
    return _simple("startingOffsets", spec, brokers, wanted)


def ending_offsets(options: SourceOptions, brokers: Brokers, wanted: list[TopicPartition]) -> Offsets:
    """Raises OptionError; DataLoss if the log does not have an offset."""
    spec = options.ending
    if isinstance(spec, AtTime):
        found = brokers.offsets(_times("endingOffsetsByTimestamp", spec, wanted))
        late = [tp for tp, offset in found.items() if offset == NO_OFFSET]
        return {**found, **brokers.offsets(dict.fromkeys(late, LATEST))}
    ends = _simple("endingOffsets", spec, brokers, wanted)
    if isinstance(spec, AtOffsets):
        latest = brokers.offsets(dict.fromkeys(wanted, LATEST))
        beyond = [tp for tp, end in ends.items() if end > latest[tp]]
        if beyond and options.fail_on_data_loss:
            for tp, log_end in brokers.log_ends(beyond).items():
                if ends[tp] > log_end:
                    raise DataLoss(f"endingOffsets: {ends[tp]} is beyond the end of {tp}, which is at offset {log_end}")
        return {tp: min(end, latest[tp]) for tp, end in ends.items()}
    return ends


def _check_order(options: SourceOptions, brokers: Brokers, starts: Offsets, ends: Offsets) -> None:
    """Reject a start after the end: it is a mistake, or the log no longer contains the offset. Reading nothing would
    hide both. Such a start is valid if the log begins there, the group has reached it, no record is as late as the
    starting timestamp, or the offsets belong to open transactions.
    """
    starting, ending = options.starting, options.ending
    behind = [tp for tp, end in ends.items() if starts[tp] > end]
    if isinstance(starting, Earliest) or not behind:
        return
    log_ends = brokers.log_ends(behind)
    for tp, latest in brokers.offsets(dict.fromkeys(behind, LATEST)).items():
        start = starts[tp]
        if start > log_ends[tp] and options.fail_on_data_loss:
            raise DataLoss(f"{tp} was to be read from offset {start} on, but its log ends at offset {log_ends[tp]}")
        if latest < start <= log_ends[tp]:
            continue
        given_start = isinstance(starting, AtOffsets) and starting.offsets[tp] == start
        given_end = ending.offsets[tp] if isinstance(ending, AtOffsets) else ends[tp]
        if start > given_end and (given_start or (isinstance(starting, AtTime) and start < latest)):
            raise OptionError(f"{tp} was to be read from offset {start} to {ends[tp]}, which is before the start")


def _simple(option: str, spec: OffsetSpec, brokers: Brokers, wanted: list[TopicPartition]) -> Offsets:
    match spec:
        case Earliest():
            return brokers.offsets(dict.fromkeys(wanted, EARLIEST))
        case Latest():
            return brokers.offsets(dict.fromkeys(wanted, LATEST))
        case AtOffsets(offsets):
            _names_all(option, offsets, wanted)
            special = {tp: offset for tp, offset in offsets.items() if offset in (EARLIEST, LATEST)}
            return {**offsets, **brokers.offsets(special)}
    raise AssertionError(f"{option} cannot be {spec}")


def _times(option: str, spec: AtTime, wanted: list[TopicPartition]) -> dict[TopicPartition, int]:
    if isinstance(spec.times_ms, int):
        return dict.fromkeys(wanted, spec.times_ms)
    _names_all(option, spec.times_ms, wanted)
    return dict(spec.times_ms)


def _names_all(option: str, given: Mapping[TopicPartition, int], wanted: list[TopicPartition]) -> None:
    if missing := sorted(set(wanted) - given.keys()):
        raise OptionError(f"{option} must name every partition that is read; {missing[0]} is missing")
    if foreign := sorted(given.keys() - set(wanted)):
        raise OptionError(f"{option} names {foreign[0]}, which is not read")


def client_settings(
    kafka: Mapping[str, str], bootstrap_servers: str, *, client_id: str = source_options.CLIENT_ID,
    retry_interval_ms: int = source_options.RETRY_INTERVAL_MS, patience_ms: int = source_options.POLL_TIMEOUT_MS,
) -> ClientSettings:  # fmt: skip
    """``kafka``: options of Kafka's clients, without the prefix ``kafka.``. Raises OptionError.

    Unlike in Spark's own source, read_committed is the default, which makes no difference for topics without
    transactions.
    """
    isolation = kafka.get("isolation.level", "read_committed").lower()
    if isolation not in ("read_committed", "read_uncommitted"):
        raise OptionError(f"kafka.isolation.level: {isolation!r} is neither read_committed nor read_uncommitted")
    return ClientSettings(
        bootstrap_servers,
        client_id=client_id,
        request_timeout_ms=kafka_number(kafka, "request.timeout.ms", 30_000),
        retry_backoff_ms=max(1, kafka_number(kafka, "retry.backoff.ms", retry_interval_ms)),
        receive_buffer_bytes=kafka_number(kafka, "receive.buffer.bytes", -1),
        read_committed=isolation == "read_committed",
        patience_ms=patience_ms,
        security=source_options.security_of(kafka),
    )


def fetch_settings(options: SourceOptions, client: ClientSettings) -> FetchSettings:
    """Raises: OptionError."""
    default = FetchSettings(client)
    per_partition = kafka_number(options.kafka, "max.partition.fetch.bytes", default.max_bytes)
    return FetchSettings(
        client,
        include_headers=options.include_headers,
        fail_on_data_loss=options.fail_on_data_loss,
        max_bytes=max(1, min(per_partition, kafka_number(options.kafka, "fetch.max.bytes", 2**31 - 1))),
        max_wait_ms=kafka_number(options.kafka, "fetch.max.wait.ms", default.max_wait_ms),
        check_crcs=options.kafka.get("check.crcs", "true").lower() != "false",
        skip_unreadable=options.skip_unreadable,
        columns=options.columns,
    )
