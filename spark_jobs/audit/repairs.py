"""Returns statements that repair a table. Pure: it runs none of them."""

import json

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.audit.data_files import Columns

SERVERS = "HOST:PORT"
"""Placeholder for unknown brokers."""


def fetch_again(tp: TopicPartition, first: int, last: int, servers: str) -> tuple[str, ...]:
    """PySpark code that reads the missing records; the table's own job must transform and append them."""
    topic, number = tp.topic, str(tp.partition)
    options = {
        "kafka.bootstrap.servers": servers,
        "kafka.isolation.level": "read_committed",
        "assign": json.dumps({topic: [tp.partition]}),
        "startingOffsets": json.dumps({topic: {number: first}}),
        "endingOffsets": json.dumps({topic: {number: last + 1}}),
    }
    return (f'spark.read.format("kafka").options(**{options!r}).load()',)


def keep_once(name: str, columns: Columns, tp: TopicPartition, first: int, last: int) -> tuple[str, ...]:
    """Spark SQL for a table ``name``. If a statement fails, the copy of the rows remains."""
    where = _condition(columns, tp, first, last)
    place = ", ".join(_quoted(path) for path in columns if path is not None)
    copy = f"kafka_zk_repair_{tp.partition}_{first}"
    rows = f"SELECT first(struct(*)) AS kept FROM {name} WHERE {where} GROUP BY {place}"
    return (
        f"CREATE TABLE {copy} USING parquet AS SELECT kept.* FROM ({rows})",
        f"DELETE FROM {name} WHERE {where}",
        f"INSERT INTO {name} SELECT * FROM {copy}",
        f"DROP TABLE {copy}",
    )


def without_copies(path: str, columns: Columns, tp: TopicPartition, first: int, last: int) -> tuple[str, ...]:
    """PySpark code for one file of a folder."""
    where = f"NOT ({_condition(columns, tp, first, last)})"
    return (f"spark.read.parquet({path!r}).where({where!r})", f"replace {path} with these rows")


def delete_key(name: str, key: str) -> tuple[str, ...]:
    """Spark SQL for a table ``name``, empty for a folder of files. ``key``: columns and values as JSON."""
    where = " AND ".join(f"{quoted(column)} = {_literal(value)}" for column, value in json.loads(key).items())
    return (f"DELETE FROM {name} WHERE {where}",) if name else (f"rewrite the files without the rows WHERE {where}",)


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    return f"'{_escaped(str(value))}'"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _condition(columns: Columns, tp: TopicPartition, first: int, last: int) -> str:
    terms = [] if columns.topic is None else [f"{_quoted(columns.topic)} = '{_escaped(tp.topic)}'"]
    terms += [f"{_quoted(columns.partition)} = {tp.partition}", f"{_quoted(columns.offset)} BETWEEN {first} AND {last}"]
    return " AND ".join(terms)


def _quoted(path: str) -> str:
    return ".".join(map(quoted, path.split(".")))


def quoted(name: str) -> str:
    """The name of a column or field in Spark SQL, in backticks."""
    return f"`{name.replace('`', '``')}`"
