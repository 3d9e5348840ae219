"""The records of an extraction as Spark frames."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.extraction import columns, decoding, file_sizes, keys, masking, partitioning
from kafka_zk.spark_jobs.extraction.dead_letters import DeadLetter
from kafka_zk.spark_jobs.extraction.keys import Keys
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.read_tasks import ReadTasks
from kafka_zk.spark_jobs.extraction.spark_failure import first_line
from kafka_zk.spark_jobs.extraction.table_formats import is_table
from kafka_zk.spark_jobs.extraction.undecodable import FAIL, Staged, meaning, place
from kafka_zk.spark_jobs.source.schema import ddl_of, spark_schema
from kafka_zk.spark_jobs.values.schema_registry import registry_at
from kafka_zk.spark_jobs.values.value_decoder import KEY, ValueDecoder, value_decoder

_RECORD = f"{decoding.INTERNAL}record"


def source_options(
    extraction: Extraction, tasks: ReadTasks, bootstrap_servers: str, *, headers: bool
) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": bootstrap_servers,
        **{f"kafka.{name}": value for name, value in extraction.kafka.items()},
        "includeHeaders": str(headers).lower(),
        "failOnDataLoss": str(extraction.fail_on_data_loss).lower(),
        "onUnreadableBatch": "fail" if extraction.on_undecodable == FAIL else "skip",
        **tasks.options,
    }


class RecordFrames:
    """The frames of one extraction. All of them use the schemas that the registry had for the first frame."""

    def __init__(self, spark: Any, extraction: Extraction) -> None:
        self._spark = spark
        self._extraction = extraction

    def check(self) -> None:
        """Decodes a frame without records. Raises WronglyAsked, RegistryFailed."""
        asked = "--schema"
        try:
            read = self._judged(self._no_records())
            asked = "--where"
            rows = self._rows(read)
            asked = "--select"
            frame = self._columns(rows)
            written = frame.schema
        except PySparkException as error:
            raise WronglyAsked(f"{asked}: {first_line(error)}") from error
        if columns.summarizes(frame):
            raise WronglyAsked("--select must not summarize records (count, DISTINCT): single records would be lost")
        terms = self._extraction.partition_by
        decoding.check_columns(written, self._extraction.format, partitioning.plain(terms))
        partitioning.check_columns(terms, written)

    def empty(self) -> Any:
        """The frame that a run without records would write."""
        return self._columns(self._unselected())

    @property
    def available(self) -> list[str]:
        """The columns that --select may name."""
        return list(self._unselected().columns)

    def _unselected(self) -> Any:
        return self._rows(self._judged(self._no_records()))

    def _no_records(self) -> Any:
        return self._spark.createDataFrame([], spark_schema(self.with_headers))

    def to_write(self, tasks: ReadTasks, bootstrap_servers: str) -> tuple[Any, Callable[[], Staged]]:
        """The frame to write, and a callable that afterwards returns what was read and written."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        judged = self._judged(self._read(tasks, bootstrap_servers, headers=self.with_headers))
        read, counts = Observation(), _counts(judged.columns, self._extraction)
        rows = self._with_partitions(self._columns(self._rows(judged.observe(read, *counts))))
        if not self._counts_again:
            return rows, lambda: _staged(read.get, read.get["records"])
        written, count = Observation(), f.count(f.lit(1)).alias("records")

        def staged() -> Staged:
            return _staged(_observed(read, judged, counts), _observed(written, rows, [count])["records"])

        return rows.observe(written, count), staged

    def undecodable(self, tasks: ReadTasks, bootstrap_servers: str) -> Iterator[DeadLetter]:
        """The undecodable records, unchanged, each with the reason."""
        from pyspark.sql import functions as f

        asked = self._extraction
        source = self._read(tasks, bootstrap_servers, headers=True)
        whole = source.withColumn(_RECORD, f.struct(*source.columns, f.unix_millis("timestamp").alias("timestamp_ms")))
        misfits = self._judged(whole, kept=(_RECORD,)).where(f"NOT {decoding.FITS}")
        for row in misfits.select(f"{_RECORD}.*", decoding.REASON).toLocalIterator():
            yield DeadLetter.of(row, row[decoding.REASON] or f"the value is not {meaning(str(asked.decoding))}")

    @property
    def with_headers(self) -> bool:
        return columns.HEADERS in self._extraction.include

    def _with_partitions(self, rows: Any) -> Any:
        """Add partition columns, unless a table adds them; rebalance the tasks for --target-file-size."""
        asked = self._extraction
        terms = () if is_table(asked.format) else asked.partition_by
        rows = partitioning.with_columns(rows, terms)
        return rows if asked.target_file_bytes is None else file_sizes.rebalanced(rows, partitioning.columns(terms))

    @property
    def _counts_again(self) -> bool:
        """True if records must be counted apart from the source: if fewer may be written than read, or if there is a
        shuffle, because Spark then repeats tasks of a dead executor and observes their records twice.
        """
        asked = self._extraction
        changing = (asked.where, asked.select, asked.dead_letter_topic, asked.target_file_bytes)
        return any(each is not None for each in changing)

    def _read(self, tasks: ReadTasks, bootstrap_servers: str, *, headers: bool) -> Any:
        options = source_options(self._extraction, tasks, bootstrap_servers, headers=headers)
        reader = self._spark.read.format("kafka_zk").options(**options)
        needed = None if headers else self._needed_columns()
        return (reader if needed is None else reader.schema(needed)).load()

    def _needed_columns(self) -> str | None:
        """The source's columns that --select names, so that no other column enters Spark's Java; None means all
        columns, because others may be needed.
        """
        asked = self._extraction
        if not asked.is_raw or asked.include or asked.mask or asked.where is not None:
            return None
        names = columns.plain_columns(asked.select, self.available)
        return None if names is None else ddl_of(names)

    @cached_property
    def decoder(self) -> ValueDecoder:
        asked = self._extraction
        assert asked.value_format is not None and asked.schema_registry is not None, "checked with the options"
        return value_decoder(asked.value_format, registry_at(asked.schema_registry), asked.topics, asked.schema)

    @cached_property
    def _keys(self) -> Keys:
        asked = self._extraction
        key_format, decoder = asked.keys_as, None
        if asked.schema_registry is not None and keys.uses_registry(key_format, asked.schema_registry):
            registry = registry_at(asked.schema_registry)
            decoder = value_decoder(key_format, registry, asked.topics, asked.key_schema, KEY)
        return keys.keys(key_format, asked.key_schema, decoder)

    def _judged(self, source: Any, kept: Sequence[str] = ()) -> Any:
        asked = self._extraction
        frame = columns.with_included(source, asked.include)
        if asked.is_raw:
            return frame
        decode = self.decoder if asked.value_format is not None else asked.decode
        more = (*asked.include, *kept)
        return decoding.decoded(
            frame, decode, asked.schema, asked.on_undecodable, asked.format, more, self._keys, asked.metadata_prefix
        )

    def _rows(self, judged: Any) -> Any:
        if self._extraction.dead_letter_topic is not None:
            judged = judged.where(f"{decoding.FITS} IS NOT FALSE")
        asked = self._extraction
        rows = masking.masked(judged.drop(*decoding.JUDGEMENT), asked.masks, asked.mask_key)
        return columns.filtered(rows, asked.where)

    def _columns(self, rows: Any) -> Any:
        return columns.selected(self._spark, rows, self._extraction.select)


def _counts(columns: Sequence[str], asked: Extraction) -> list[Any]:
    """A reason may show a value, so reasons are left out if columns are masked."""
    from pyspark.sql import functions as f

    counts = [f.count(f.lit(1)).alias("records")]
    if decoding.FITS in columns:
        misfit = ~f.col(decoding.FITS)
        place = [f.col(f"{asked.metadata_prefix}{name}").alias(name) for name in ("topic", "partition", "offset")]
        reason = f.lit(None).cast("string").alias(decoding.REASON) if asked.mask else f.col(decoding.REASON)
        counts += [
            f.count(decoding.FITS).alias("values"),
            f.count_if(misfit).alias("undecodable"),
            f.count_if(decoding.KEY_MISFIT).alias("keys"),
            f.min(f.when(misfit, f.struct(*place, reason))).alias("first"),
        ]
    return counts


def _observed(observation: Any, frame: Any, aggregates: Sequence[Any]) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = observation.get
    except Py4JJavaError:
        found = frame.agg(*aggregates).first().asDict()
    return found


def _staged(counts: Mapping[str, Any], records: int) -> Staged:
    if "values" not in counts:
        return Staged(int(records))
    first = "" if counts["first"] is None else place(*counts["first"])
    return Staged(int(records), int(counts["values"]), int(counts["undecodable"]), first, int(counts["keys"]))
