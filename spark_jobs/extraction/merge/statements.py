"""The columns and statements of a merge, the same for Delta and Iceberg tables. Pure.

A table has the columns of --schema, and a struct ``_kafka_zk`` with the row's key, position and state. A second table
has the states of deleted keys, and the position of the newest truncate. A property of the first table names the topic.
"""

from collections.abc import Mapping

from kafka_zk.spark_jobs.cdc.changes import Position
from kafka_zk.spark_jobs.cdc.connect_types import ColumnType
from kafka_zk.spark_jobs.errors import ExtractionFailed
from kafka_zk.spark_jobs.extraction.merge.cdc_options import OWN_COLUMN
from kafka_zk.spark_jobs.extraction.schemas.type_changes import Fields, TypeChange, refusal, type_changes, type_name

DELETED_DDL = "key STRING, position ARRAY<BIGINT>, state STRING"
TRUNCATE = ""
"""The key under which the second table keeps the position of the newest truncate; no row's key is empty."""
TOPIC_PROPERTY = "kafka-zk.topic"
CHANGED = "kafka-zk: another writer changed the row since it was read"
RESULTS, DEAD = "kafka_zk_results", "kafka_zk_dead"
"""Views: a row for each changed key, and the rows of the second table."""
_OWN_TYPE = "STRUCT<key: STRING, position: ARRAY<BIGINT>, state: STRING>"

Types = Mapping[str, ColumnType]


def quoted(types: Types) -> list[str]:
    return [f"`{name}`" for name in types]


def columns_ddl(types: Types) -> str:
    return ", ".join(f"`{name}` {kind.spark}" for name, kind in types.items())


def table_ddl(types: Types) -> str:
    return f"{columns_ddl(types)}, {OWN_COLUMN} {_OWN_TYPE}"


def results_ddl(types: Types) -> str:
    """The columns of RESULTS. ``before``: the state that the table's row had."""
    return f"key STRING, lives BOOLEAN, position ARRAY<BIGINT>, state STRING, before STRING, {columns_ddl(types)}"


def into_deleted(table: str) -> str:
    """The MERGE of DEAD. ``table``: the table's name in SQL."""
    return (
        f"MERGE INTO {table} AS t USING {DEAD} AS s ON t.key = s.key "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


def into_rows(table: str, types: Types, truncated_at: Position | None) -> str:
    """The MERGE of RESULTS. It fails with CHANGED if a row's state is not the one that was read.

    ``truncated_at``: the position of the newest truncate, if the changes have one. A killed run may have stored this
    position without deleting the older rows.
    """
    names = quoted(types)
    own = "named_struct('key', s.key, 'position', s.position, 'state', s.state)"
    refuse = f"CAST(raise_error('{CHANGED}') AS {_OWN_TYPE})"
    updated = ", ".join(f"t.{name} = s.{name}" for name in names)
    inserted = ", ".join(f"s.{name}" for name in names)
    truncate = ""
    if truncated_at is not None:
        position = ", ".join(f"CAST({part} AS BIGINT)" for part in truncated_at)
        truncate = f"WHEN NOT MATCHED BY SOURCE AND t.{OWN_COLUMN}.position <= array({position}) THEN DELETE"
    return f"""
        MERGE INTO {table} AS t USING {RESULTS} AS s ON t.{OWN_COLUMN}.key = s.key
        WHEN MATCHED AND NOT t.{OWN_COLUMN}.state <=> s.before THEN UPDATE SET {OWN_COLUMN} = {refuse}
        WHEN MATCHED AND s.lives THEN UPDATE SET {updated}, t.{OWN_COLUMN} = {own}
        WHEN MATCHED THEN DELETE
        WHEN NOT MATCHED AND s.lives THEN INSERT ({", ".join(names)}, {OWN_COLUMN}) VALUES ({inserted}, {own})
        {truncate}
        """


def topic_named(table: str, topic: str) -> str:
    """The statement that names the topic in a table's property. ``table``: as for ``into_deleted``."""
    return f"ALTER TABLE {table} SET TBLPROPERTIES ('{TOPIC_PROPERTY}' = '{topic}')"


def check_topic(target: str, found: str | None, topic: str) -> None:
    """``found``: the topic in the table's property; None in a table that no run has named a topic for yet.

    Raises ExtractionFailed for another topic, because equal keys in the two topics may identify different rows.
    """
    if found not in (None, topic):
        raise ExtractionFailed(
            f"{target} is the table of topic {found}; rows of topic {topic} would replace its rows with equal keys: "
            f"give topic {topic} another table with --to. If topic {found} was renamed to {topic} and its positions "
            f"continue, or if no run has merged rows yet, remove the table's property {TOPIC_PROPERTY}"
        )


def widenings(target: str, found: Fields, wanted: Fields, *, widen: bool) -> list[TypeChange]:
    """The types of the table's columns to widen, so that the table has those of --schema.

    ``found``: the table's columns; ``wanted``: those of --schema. Raises ExtractionFailed for other differences, and
    unless the types may be widened.
    """
    in_table, asked = ({each["name"]: type_name(each["type"]) for each in fields} for fields in (found, wanted))
    if OWN_COLUMN not in in_table:
        raise ExtractionFailed(f"{target} has no column {OWN_COLUMN}: --cdc merges only into tables that it created")
    if others := sorted(in_table.keys() ^ asked.keys()):
        name = others[0]
        raise ExtractionFailed(
            f"{target}: the column {name} is {in_table.get(name, 'absent')} in the table, and "
            f"{asked.get(name, 'absent')} in --schema: give the table's columns"
        )
    changes = type_changes(found, wanted)
    if told := refusal(target, changes, widen=widen, narrower_fits=False):
        raise ExtractionFailed(told)
    return changes
