"""Maps the topics of a database to tables. Pure."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from kafka_zk.rebalance.topic_filter import InvalidTopicFilter, java_pattern
from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.extraction.database import control_topics
from kafka_zk.spark_jobs.extraction.database.name_templates import NameTemplate
from kafka_zk.spark_jobs.extraction.table_formats import ICEBERG


@dataclass(frozen=True, slots=True)
class TopicTable:
    """``left_out``: the rule that excludes the topic. ``refused``: why it cannot be extracted; the topic then fails."""

    topic: str
    target: str = ""
    left_out: str = ""
    refused: str = ""


def check_pattern(pattern: str) -> None:
    """Raises WronglyAsked."""
    try:
        java_pattern(pattern)
    except InvalidTopicFilter as error:
        raise WronglyAsked(f"--topic-pattern: {pattern!r}: {error}") from error


def topic_tables(
    topics: Iterable[str], pattern: str, target: NameTemplate, format: str, *,
    has_events: bool, dead_letter_topic: str | None = None,
) -> list[TopicTable]:  # fmt: skip
    """The topics whose whole name matches, sorted, each with its table or with the reason why it has none.

    ``topics``: all topics of the cluster, because a connector's own topics are recognized by the other topics.
    """
    names = sorted(set(topics))
    matches, prefixes = java_pattern(pattern).fullmatch, control_topics.prefixes(names)
    found = []
    for topic in filter(matches, names):
        left_out = control_topics.why_no_table(topic, prefixes, has_events=has_events)
        if topic == dead_letter_topic:
            left_out = "dead letters of this command"
        found.append(TopicTable(topic, left_out=left_out) if left_out else _mapped(topic, target, format))
    return _without_collisions(found, format)


def _mapped(topic: str, target: NameTemplate, format: str) -> TopicTable:
    try:
        return TopicTable(topic, target.filled_target(topic, format))
    except WronglyAsked as error:
        return TopicTable(topic, refused=str(error))


def _without_collisions(tables: list[TopicTable], format: str) -> list[TopicTable]:
    """Topics that share a table are all refused, because their rows would be mixed."""
    counts = Counter(_same(each.target, format) for each in tables if each.target)
    return [each if counts[_same(each.target, format)] <= 1 else _refused(each, tables, format) for each in tables]


def _refused(table: TopicTable, tables: list[TopicTable], format: str) -> TopicTable:
    key = _same(table.target, format)
    other = next(each for each in tables if each.topic != table.topic and _same(each.target, format) == key)
    return TopicTable(
        table.topic, refused=f"topic {other.topic} would go into the same table {other.target}: give --to more of the "
        "topic's name, such as {schema}_{table}, or a --topic-pattern that matches one of them",
    )  # fmt: skip


def _same(target: str, format: str) -> str:
    """Many Iceberg catalogs do not distinguish upper and lower case; folders do."""
    return target.lower() if format == ICEBERG else target
