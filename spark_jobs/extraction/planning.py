"""Plans what to extract now, and makes the report. Pure, except for requests to brokers."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.znodes.consumers import group_id_fault
from kafka_zk.spark_jobs.errors import DataLoss, WronglyAsked
from kafka_zk.spark_jobs.extraction import keys, masking
from kafka_zk.spark_jobs.extraction.columns import check_included
from kafka_zk.spark_jobs.extraction.masking import Mask
from kafka_zk.spark_jobs.extraction.steps import Leftover
from kafka_zk.spark_jobs.extraction.undecodable import FAIL, KEEP, NOTHING_STAGED, Staged
from kafka_zk.spark_jobs.source import offset_ranges
from kafka_zk.spark_jobs.source.cluster_client import EARLIEST, LATEST
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange
from kafka_zk.spark_jobs.source.options import check_kafka
from kafka_zk.spark_jobs.values.value_decoder import VALUE_FORMATS

_PREFIX = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_]*)?", re.ASCII)


class Brokers(Protocol):
    """Implemented by ``cluster_client.ClusterClient``."""

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]: ...

    def log_ends(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]: ...

    def log_offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]: ...


@dataclass(frozen=True, kw_only=True)
class Extraction:
    """The extraction to run; the fields are the command line's options.

    The offsets are in ``zookeeper``, or, if ``bootstrap_servers`` is given instead, in the target (``in_table/``).
    ``from_ms``: makes the extraction a backfill of the records from this time to ``until_ms``, see ``progress_group``.
    Both times are in ms since the epoch. ``until_ms``: None means now. ``wait_ms``: maximum time for other members to
    leave, at least a session timeout, because a killed member stays registered that long. ``kafka``: options of Kafka's
    clients.
    """

    zookeeper: str = ""
    bootstrap_servers: str | None = None
    group: str
    topics: tuple[str, ...]
    target: str
    format: str = "parquet"
    cdc: str | None = None
    decode: str | None = None
    schema: str | None = None
    on_undecodable: str = FAIL
    value_format: str | None = None
    schema_registry: str | None = None
    key_format: str | None = None
    key_schema: str | None = None
    metadata_prefix: str = ""
    dead_letter_topic: str | None = None
    include: tuple[str, ...] = ()
    select: str | None = None
    where: str | None = None
    mask: tuple[str, ...] = ()
    mask_key: bytes | None = field(default=None, repr=False)
    partition_by: tuple[str, ...] = ()
    merge_schema: bool = False
    widen: bool = False
    target_file_bytes: int | None = None
    max_records: int | None = None
    max_records_per_task: int | None = None
    from_ms: int | None = None
    until_ms: int | None = None
    fail_on_data_loss: bool = True
    wait_ms: float = 0
    session_timeout_ms: int = 10_000
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)  # may contain secrets

    def __post_init__(self) -> None:
        """A single topic or column may be a string. Raises WronglyAsked, OptionError."""
        if (fault := group_id_fault(self.group)) is not None:
            raise WronglyAsked(f"--group: {fault}")
        if bool(self.zookeeper) == bool(self.bootstrap_servers):
            raise WronglyAsked("give --zookeeper, or --bootstrap-server for a cluster without a reachable ZooKeeper")
        if not self.target:
            raise WronglyAsked("--to must not be empty")
        check_kafka(self.kafka)
        for name in ("topics", "partition_by", "include", "mask"):
            if isinstance(given := getattr(self, name), str):
                object.__setattr__(self, name, (given,))
        if not self.topics or not all(self.topics):
            raise WronglyAsked("--topic is missing")
        if self.from_ms is not None and self.from_ms < 0:
            raise WronglyAsked("--from must not be before 1970")
        if self.from_ms is not None and (self.until_ms is None or self.until_ms <= self.from_ms):
            raise WronglyAsked(
                "--from needs --until with a later time: a later run continues the backfill with the same two times"
            )
        self._check_values()

    def _check_values(self) -> None:
        if self.value_format is not None and self.value_format not in VALUE_FORMATS:
            raise WronglyAsked(f"--value-format: {self.value_format!r} is not one of {', '.join(VALUE_FORMATS)}")
        if self.value_format is not None and self.decode is not None:
            raise WronglyAsked("give --value-format (with a schema registry) or --decode (without), not both")
        keys.check(self.key_format, self.key_schema, self.schema_registry)
        if self.value_format is not None and self.schema_registry is None:
            raise WronglyAsked("--value-format and --schema-registry must be given together")
        in_use = self.value_format is not None or keys.uses_registry(self.key_format, self.schema_registry)
        if self.schema_registry is not None and not in_use:
            raise WronglyAsked("--schema-registry is for --value-format, and for --key-format avro and the like")
        if not _PREFIX.fullmatch(self.metadata_prefix):
            raise WronglyAsked(f"--metadata-prefix: {self.metadata_prefix!r} is not a name, such as _kafka_")
        if self.dead_letter_topic is not None:
            if self.decoding is None and self.keys_as == keys.BYTES:
                raise WronglyAsked("--dead-letter-topic is for --decode, --value-format and --key-format")
            if self.on_undecodable != FAIL:
                raise WronglyAsked("--dead-letter-topic cannot be combined with --on-undecodable")
            if self.dead_letter_topic in self.topics:
                raise WronglyAsked("--dead-letter-topic must not be an extracted topic")
        check_included(self.include)
        self._check_masks()

    def _check_masks(self) -> None:
        masking.check(self.masks, self.mask_key)
        refused = {  # options that write unmasked values: undecodable ones, or those before a merge
            "--dead-letter-topic": self.dead_letter_topic is not None,
            "--on-undecodable keep": self.on_undecodable == KEEP,
            "--cdc": self.cdc is not None,
        }
        if self.mask and (option := next((name for name, given in refused.items() if given), None)) is not None:
            raise WronglyAsked(f"--mask cannot be combined with {option}, which stores values without masks")

    @property
    def masks(self) -> list[Mask]:
        """Raises WronglyAsked."""
        return [masking.parse(each) for each in self.mask]

    @property
    def is_backfill(self) -> bool:
        """True if the extraction begins at a timestamp; it then leaves the offsets of ``group`` alone."""
        return self.from_ms is not None

    @property
    def progress_group(self) -> str:
        """The group whose offsets and manifest record what has been extracted: ``group``, or a backfill's own group.

        A backfill's group is named after its topics and times, so that a repeated run continues where a killed run
        ended. The offsets of ``group`` do not change.
        """
        if not self.is_backfill:
            return self.group
        digest = hashlib.sha256("/".join(sorted(set(self.topics))).encode()).hexdigest()[:8]
        return f"{self.group}.backfill-{self.from_ms}-{self.until_ms}-{digest}"

    @property
    def decoding(self) -> str | None:
        """``decode``, or "registry avro" and the like; None: values stay bytes."""
        return self.decode if self.value_format is None else f"registry {self.value_format}"

    @property
    def keys_as(self) -> str:
        """The format of keys: by default text, or bytes if values stay bytes."""
        return self.key_format or (keys.BYTES if self.decoding is None else keys.STRING)

    @property
    def key_format_to_keep(self) -> str:
        """The key format that the group's later runs must also use; empty if keys and values stay bytes by default."""
        return self.key_format or ("" if self.decoding is None else keys.STRING)

    @property
    def is_raw(self) -> bool:
        """True if the written columns are the source's columns."""
        return self.decoding is None and self.keys_as == keys.BYTES and not self.metadata_prefix


@dataclass(frozen=True)
class PartitionReport:
    """``lag_before``, ``lag_after``: number of offsets from ``from_offset``, or from ``until_offset``, to the end that
    the partition had at the time of the plan."""

    topic: str
    partition: int
    from_offset: int
    until_offset: int
    lag_before: int
    lag_after: int


@dataclass(frozen=True)
class Report:
    """``published``: the folders that appeared in the target, an earlier run's folders first. ``recovered``: what the
    run did with an earlier run's leftovers, the value of a ``Leftover``. ``undecodable``: number of records whose value
    was not decoded. ``seconds``: duration of the run, including ``spark_start_seconds``. ``short``: number of requested
    offsets that were not extracted; 0 if ``max_records`` limited the run. ``writer``: whether the executors or Spark
    wrote the files, and why Spark had to; "" without new records. ``brokers``: the bootstrap addresses.
    """

    partitions: tuple[PartitionReport, ...]
    records: int
    undecodable: int
    published: tuple[str, ...]
    recovered: str
    seconds: float = 0.0
    spark_start_seconds: float = 0.0
    short: int = 0
    writer: str = ""
    brokers: str = ""

    @property
    def lag_before(self) -> int:
        return sum(each.lag_before for each in self.partitions)

    @property
    def lag_after(self) -> int:
        return sum(each.lag_after for each in self.partitions)

    @property
    def records_per_second(self) -> float:
        seconds = self.seconds - self.spark_start_seconds
        return self.records / seconds if seconds > 0 else 0.0

    def as_document(self) -> dict[str, Any]:
        """Seconds are rounded to milliseconds."""
        return {
            "records": self.records,
            "undecodable": self.undecodable,
            "seconds": round(self.seconds, 3),
            "spark_start_seconds": round(self.spark_start_seconds, 3),
            "records_per_second": round(self.records_per_second),
            "lag_before": self.lag_before,
            "lag_after": self.lag_after,
            "short": self.short,
            "published": list(self.published),
            "writer": self.writer,
            "recovered": self.recovered,
            "partitions": [asdict(each) for each in self.partitions],
        }


class Planning:
    """The offsets that a run could extract. Brokers are asked only once."""

    def __init__(self, extraction: Extraction, brokers: Brokers, offsets: Mapping[TopicPartition, int]) -> None:
        self._extraction = extraction
        self.offsets = dict(offsets)
        self.earliest = brokers.offsets(dict.fromkeys(offsets, EARLIEST))
        self.latest = brokers.offsets(dict.fromkeys(offsets, LATEST))
        self._beginnings = self.earliest  # where partitions without an offset begin
        if extraction.from_ms is not None:
            self._beginnings = _first_at(brokers.offsets(dict.fromkeys(offsets, extraction.from_ms)), self.latest)
        beyond = [tp for tp, offset in offsets.items() if offset > self.latest[tp]]
        self._log_ends = {**self.latest, **(brokers.log_ends(beyond) if beyond else {})}
        self._ends = self._asked = self.latest
        if extraction.until_ms is not None:
            times = dict.fromkeys(offsets, extraction.until_ms)
            self._ends = _first_at(brokers.offsets(times), self.latest)
            # Transactions that are still open may hide records that are older than ``until_ms``.
            self._asked = _first_at(brokers.log_offsets(times), brokers.log_ends(offsets))

    def at(self, offsets: Mapping[TopicPartition, int]) -> "Planning":
        moved = copy(self)
        moved.offsets = dict(offsets)
        return moved

    def new_ranges(self) -> list[OffsetRange]:
        """Raises: DataLoss."""
        ranges = offset_ranges.between({tp: self._start(tp) for tp in self.offsets}, self._ends)
        if self._extraction.max_records is not None:
            ranges = offset_ranges.limited(ranges, self._extraction.max_records)
        return ranges

    def _start(self, tp: TopicPartition) -> int:
        stored, earliest, end = self.offsets[tp], self.earliest[tp], self._log_ends[tp]
        if stored < 0:
            return self._beginnings[tp]
        if earliest <= stored <= end:
            return stored
        if self._extraction.fail_on_data_loss:
            raise DataLoss(self._loss(tp))
        return earliest if stored < earliest else self._beginnings[tp]

    def _loss(self, tp: TopicPartition) -> str:
        told = (
            f"group {self._extraction.progress_group} is at offset {self.offsets[tp]} of {tp}, whose log has "
            f"{self.earliest[tp]} to {self._log_ends[tp]}"
        )
        if self._extraction.is_backfill:
            told += ", so it is unknown whether the backfill has all records to --until"
        return f"{told} (--no-fail-on-data-loss continues at its beginning)"

    def beginnings_in_doubt(self) -> str | None:
        """A sentence if retention may have removed records of a backfill before it began."""
        if not self._extraction.is_backfill:
            return None
        doubtful = [
            tp
            for tp, offset in sorted(self.offsets.items())
            if offset < 0 and 0 < self.earliest[tp] == self._beginnings[tp]
        ]
        if not doubtful:
            return None
        more = f"; so do the logs of {len(doubtful) - 1:,} more partitions" if len(doubtful) > 1 else ""
        return (
            f"retention may have removed records of this backfill: the log of {doubtful[0]} begins at offset "
            f"{self.earliest[doubtful[0]]}, not before --from{more}"
        )

    def report(
        self, ranges: Sequence[OffsetRange], staged: Staged = NOTHING_STAGED, published: tuple[str, ...] = (),
        recovered: Leftover = Leftover.NOTHING,
    ) -> Report:  # fmt: skip
        by_tp = {each.tp: each for each in ranges}
        rows = []
        for tp in sorted(self.offsets):
            start = by_tp[tp].from_offset if tp in by_tp else self._position(tp)
            end = by_tp[tp].until_offset if tp in by_tp else start
            before = self.latest[tp] - start
            rows.append(PartitionReport(*tp, start, end, before, self.latest[tp] - end))
        return Report(
            tuple(rows), staged.records, staged.undecodable, published, recovered.value, short=self._short(rows),
            writer="" if staged is NOTHING_STAGED else staged.writer,
        )  # fmt: skip

    def _short(self, rows: Sequence[PartitionReport]) -> int:
        most = self._extraction.max_records
        if most is not None and sum(each.until_offset - each.from_offset for each in rows) >= most:
            return 0
        return sum(max(0, self._asked[TopicPartition(each.topic, each.partition)] - each.until_offset) for each in rows)

    def _position(self, tp: TopicPartition) -> int:
        return max(self.offsets[tp], self.earliest[tp]) if self.offsets[tp] >= 0 else self._beginnings[tp]


def _first_at(found: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    return {tp: offset if offset >= 0 else ends[tp] for tp, offset in found.items()}
