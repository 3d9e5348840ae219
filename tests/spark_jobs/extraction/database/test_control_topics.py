"""Topics that are not tables, with the names that recorded connectors used."""

import pytest

from kafka_zk.spark_jobs.extraction.database.control_topics import prefixes, why_no_table
from tests.spark_jobs.cdc import recordings

TABLES = {"customers", "orders", "log_lines", "documents", "cleared", "evolving", "shifted", "types", "doomed"}


@pytest.mark.parametrize("database", ["postgres", "mariadb"])
def test_of_a_recorded_database_only_tables_are_left(database: str) -> None:
    prefix = "pg_plain" if database == "postgres" else "my_plain"
    topics = {line["topic"] for line in recordings.lines(database, "plain")} | {f"__debezium-heartbeat.{prefix}"}
    known = prefixes(topics)
    left = {topic for topic in topics if why_no_table(topic, known, has_events=True) is None}
    assert {topic.removeprefix(f"{prefix}.shop.") for topic in left} == TABLES - (
        {"doomed"} if database == "postgres" else set()
    )


@pytest.mark.parametrize(
    ("topic", "why"),
    [
        ("__debezium-heartbeat.shop", "heartbeats of Debezium"),
        ("__consumer_offsets", "an internal topic"),
        ("shop.transaction", "begins and ends of Debezium's transactions"),
        ("shop.message", "logical decoding messages of PostgreSQL"),
        ("shop.public.debezium_signal", "signals to Debezium"),
        ("shop", "schema changes of Debezium"),
        ("shop.public.message", None),
        ("shop.public.transaction", None),
        ("other.message", None),
        ("debezium_signal", None),
    ],
)
def test_each_rule_needs_the_tables_of_its_prefix(topic: str, why: str | None) -> None:
    known = prefixes([topic, "shop.public.orders", "eu.shop", "__a.b.c.d"])
    assert why_no_table(topic, known, has_events=True) == why


@pytest.mark.parametrize("topic", ["shop.transaction", "shop.message", "shop.public.debezium_signal"])
def test_what_debezium_writes_for_itself_becomes_no_table_without_cdc_either(topic: str) -> None:
    assert why_no_table(topic, prefixes([topic, "shop.public.orders"]), has_events=False) is not None


def test_a_topic_whose_name_begins_others_is_a_topic_as_any_without_events() -> None:
    known = prefixes(["logs", "logs.app.web"])
    assert why_no_table("logs", known, has_events=False) is None
    assert why_no_table("logs", known, has_events=True) == "schema changes of Debezium"
