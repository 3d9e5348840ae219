"""Extracts all topics of a database, one after another, in one Spark session, with one extraction for each topic.

If a topic fails, the others are still extracted. Each run examines all topics, so a new topic gets its table, and a
failed topic is tried again.

In ZooKeeper, a group has one plan at a time (``manifest.py``). A plan that a killed run left must be finished before
the next plan. Each topic has its own group, GROUP.TOPIC, so that topics do not wait for each other. Without ZooKeeper,
the plans are in the tables, and all topics share one group.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from kafka_zk.registry.client.errors import ConnectionLoss, ConnectionTimeout, SessionLost
from kafka_zk.spark_jobs.errors import JavaDied, WronglyAsked, ZooKeeperLost
from kafka_zk.spark_jobs.extraction.database import results
from kafka_zk.spark_jobs.extraction.database.name_templates import NameTemplate
from kafka_zk.spark_jobs.extraction.database.results import Outcome, TopicResult
from kafka_zk.spark_jobs.extraction.database.table_schemas import NoColumns, TableSchemas
from kafka_zk.spark_jobs.extraction.database.topic_tables import TopicTable, topic_tables
from kafka_zk.spark_jobs.extraction.planning import Extraction, Report
from kafka_zk.spark_jobs.source import planner
from kafka_zk.spark_jobs.source.cluster_client import ClusterClient
from kafka_zk.spark_jobs.source.driver import find_brokers
from kafka_zk.spark_jobs.source.options import security_of
from kafka_zk.spark_jobs.waiting import Note

_END_ALL = (JavaDied, ZooKeeperLost, ConnectionLoss, ConnectionTimeout, SessionLost)
"""After these errors, each of the other topics would also fail, after a wait."""

ANY_COLUMNS = "id INT"
"""For checks in which the columns do not matter."""

Single = Callable[[Any, Extraction], Report]
"""Extracts one topic: ``job.extract`` or ``job.plan``. The first argument is a session, or a callable that starts
one."""


@dataclass(frozen=True, kw_only=True)
class Database:
    """``one``: the options of each topic's extraction, with an example topic, target, group and schema.
    ``schema_files``: a file for each table; None if all tables have the schema of ``one``, or their schemas are
    derived.
    """

    pattern: str
    one: Extraction
    target: NameTemplate
    schema_files: NameTemplate | None = None

    def tables(self, topics: Iterable[str]) -> list[TopicTable]:
        """``topics``: all topics of the cluster."""
        return topic_tables(
            topics, self.pattern, self.target, self.one.format,
            has_events=self.one.cdc is not None, dead_letter_topic=self.one.dead_letter_topic,
        )  # fmt: skip

    def group(self, topic: str) -> str:
        return self.one.group if self.one.bootstrap_servers is not None else f"{self.one.group}.{topic}"

    def extraction(self, table: TopicTable, schemas: TableSchemas) -> Extraction | None:
        """A topic's extraction; None if no record yet says what the columns are. Raises the errors of
        ``TableSchemas``."""
        topic, schema = table.topic, self.one.schema
        if self.one.cdc is not None and schema is None:
            if (schema := schemas.of_events(topic)) is None:
                return None
        elif self.schema_files is not None:
            schema = schemas.given(topic) if self.one.decode is None else schemas.required(topic)
        return self.extraction_with(table, schema)

    def extraction_with(self, table: TopicTable, schema: str | None) -> Extraction:
        group = self.group(table.topic)
        return replace(self.one, topics=(table.topic,), target=table.target, group=group, schema=schema)


class SharedSpark:
    """``current``: the session, or the callable that starts it while it has not started."""

    def __init__(self, start: Callable[[], Any]) -> None:
        self._start = start
        self.current: Any = self._first
        self.failure: Exception | None = None

    def _first(self) -> Any:
        try:
            self.current = self._start()
        except Exception as error:
            self.failure = error
            raise
        return self.current


def extract_database(
    asked: Database, single: Single, start_spark: Callable[[], Any], *,
    explain: Callable[[Exception], str], note: Note, is_plan: bool = False,
) -> list[TopicResult]:  # fmt: skip
    """The results of all topics whose names match, sorted by name.

    ``explain``: returns a topic's error as a sentence, or raises it if it is a bug. ``is_plan``: ``single`` only plans.
    Raises WronglyAsked if no topic matches, RegistryError, OptionError, FetchFailed, and the error of a Spark that does
    not start.
    """
    with _brokers(asked.one, note) as brokers:
        tables = asked.tables(brokers.topic_names())
        if not tables:
            raise WronglyAsked(f"--topic-pattern: no topic has a name that {asked.pattern!r} matches as a whole")
        schemas = TableSchemas(brokers, asked.schema_files, asked.one.schema_registry)
        return extract_topics(
            tables, asked, lambda table: asked.extraction(table, schemas), single, SharedSpark(start_spark),
            explain=explain, note=note, is_plan=is_plan,
        )  # fmt: skip


@contextmanager
def _brokers(one: Extraction, note: Note) -> Iterator[ClusterClient]:
    servers = one.bootstrap_servers or find_brokers(one.zookeeper, security_of(one.kafka).protocol)
    with ClusterClient(planner.client_settings(one.kafka, servers), note) as brokers:
        yield brokers


def extract_topics(
    tables: Sequence[TopicTable], asked: Database, extraction_of: Callable[[TopicTable], Extraction | None],
    single: Single, spark: SharedSpark, *, explain: Callable[[Exception], str], note: Note, is_plan: bool = False,
) -> list[TopicResult]:  # fmt: skip
    """Like ``extract_database``, for given tables."""
    found: list[TopicResult] = []
    ended_by = ""
    for number, table in enumerate(tables, 1):
        if table.left_out:
            found.append(TopicResult(table.topic, "", Outcome.LEFT_OUT, table.left_out))
        elif table.refused:
            found.append(TopicResult(table.topic, "", Outcome.FAILED, table.refused))
        elif ended_by:
            found.append(TopicResult(table.topic, table.target, Outcome.NOT_TRIED, ended_by))
        else:
            result, error = _extracted(table, asked, extraction_of, single, spark, explain, is_plan)
            if isinstance(error, _END_ALL):
                ended_by = f"the run ended at topic {table.topic}"
            found.append(result)
            note(f"{number}/{len(tables)} {table.topic}: {_told(result)}")
    return found


def _extracted(
    table: TopicTable, asked: Database, extraction_of: Callable[[TopicTable], Extraction | None], single: Single,
    spark: SharedSpark, explain: Callable[[Exception], str], is_plan: bool,
) -> tuple[TopicResult, Exception | None]:  # fmt: skip
    group = asked.group(table.topic)
    try:
        extraction = extraction_of(table)
        if extraction is None:
            return TopicResult(table.topic, table.target, Outcome.EMPTY, group=group), None
        report = single(spark.current, extraction)
    except NoColumns as error:
        return _without_columns(table, asked, single, error, explain, is_plan)
    except Exception as error:
        if spark.failure is not None:
            raise
        return results.failed(table.topic, table.target, group, error, explain(error)), error
    return results.reported(table.topic, table.target, group, report, is_plan=is_plan), None


def _without_columns(
    table: TopicTable, asked: Database, single: Single, error: NoColumns, explain: Callable[[Exception], str],
    is_plan: bool,
) -> tuple[TopicResult, Exception | None]:  # fmt: skip
    """A topic without values is idle if its group has nothing to extract or to finish; this check needs no columns."""

    def refuse() -> Any:
        raise error

    group = asked.group(table.topic)
    try:
        report = single(refuse, asked.extraction_with(table, ANY_COLUMNS))
        if any(each.until_offset > each.from_offset for each in report.partitions):
            raise error
    except Exception as failure:
        return results.failed(table.topic, table.target, group, failure, explain(failure)), failure
    return results.reported(table.topic, table.target, group, report, is_plan=is_plan), None


def _told(result: TopicResult) -> str:
    if result.outcome is Outcome.EXTRACTED:
        return f"{result.records:,} records in {result.seconds:.1f} s"
    return f"{result.outcome}{f': {result.reason}' if result.reason else ''}"
