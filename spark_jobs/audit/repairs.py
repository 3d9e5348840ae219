"""Statements that repair a table. Pure: nothing is run."""

import json

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.audit.data_files import Columns

SERVERS = "HOST:PORT"
"""Where the brokers are not known."""


def fetch_again(tp: TopicPartition, first: int, last: int, servers: str) -> tuple[str, ...]:
    """PySpark that reads the missing records; the table's own job shapes and appends them."""
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
    """Spark SQL for a table ``name``. The copy outlives a failure between the statements."""
    where = _condition(columns, tp, first, last)
    place = ", ".join(_quoted(path) for path in columns if path is not None)
    copy = f"kafka_zk_repair_{tp.partition}_{first}"
    numbered = f"SELECT *, row_number() OVER (PARTITION BY {place} ORDER BY {_quoted(columns.offset)}) AS kafka_zk_copy"
    return (
        f"CREATE TABLE {copy} AS SELECT * EXCEPT (kafka_zk_copy) FROM ({numbered} FROM {name} WHERE {where}) "
        f"WHERE kafka_zk_copy = 1",
        f"DELETE FROM {name} WHERE {where}",
        f"INSERT INTO {name} SELECT * FROM {copy}",
        f"DROP TABLE {copy}",
    )


def without_copies(path: str, columns: Columns, tp: TopicPartition, first: int, last: int) -> tuple[str, ...]:
    """PySpark for one file of a folder."""
    where = f"NOT ({_condition(columns, tp, first, last)})"
    return (f"spark.read.parquet({path!r}).where({where!r})", f"replace {path} by these rows")


def _condition(columns: Columns, tp: TopicPartition, first: int, last: int) -> str:
    topic = tp.topic.replace("\\", "\\\\").replace("'", "\\'")
    terms = [] if columns.topic is None else [f"{_quoted(columns.topic)} = '{topic}'"]
    terms += [f"{_quoted(columns.partition)} = {tp.partition}", f"{_quoted(columns.offset)} BETWEEN {first} AND {last}"]
    return " AND ".join(terms)


def _quoted(path: str) -> str:
    return ".".join(f"`{part.replace('`', '``')}`" for part in path.split("."))
