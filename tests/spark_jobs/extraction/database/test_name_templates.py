"""Names of tables and files from parts of topics' names."""

import pytest

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.extraction.database.name_templates import NameTemplate, is_file_per_table
from kafka_zk.spark_jobs.extraction.table_formats import iceberg_name


@pytest.mark.parametrize(
    ("text", "topic", "filled"),
    [
        ("./lake/{table}", "shop.public.orders", "./lake/orders"),
        ("./lake/{schema}/{table}", "shop.public.orders", "./lake/public/orders"),
        ("./lake/{database}_{table}", "my.shop.orders", "./lake/shop_orders"),
        ("./lake/{topic}", "shop.public.orders", "./lake/shop.public.orders"),
        ("./lake/{table}", "orders", "./lake/orders"),
    ],
)
def test_placeholders_are_parts_of_the_topic(text: str, topic: str, filled: str) -> None:
    assert NameTemplate(text, "--to").filled(topic) == filled


@pytest.mark.parametrize(
    ("text", "topic", "filled"),
    [
        ("lake.shop.{table}", "shop.public.orders", "lake.shop.orders"),
        ("lake.shop.{table}", "shop.public.order-lines", "lake.shop.`order-lines`"),
        ("lake.shop.raw_{table}", "shop.public.a-b", "lake.shop.`raw_a-b`"),
        ("lake.`my.shop`.`{table}`", "shop.public.a-b", "lake.`my.shop`.`a-b`"),
        ("lake.{schema}.{topic}", "shop.public.orders", "lake.public.`shop.public.orders`"),
        ("lake.shop.{table}", "shop.public.2024", "lake.shop.`2024`"),
        ("lake.shop.{table}", "shop.public.1e5_a", "lake.shop.`1e5_a`"),
    ],
)
def test_parts_of_icebergs_names_get_the_backticks_that_they_need(text: str, topic: str, filled: str) -> None:
    found = NameTemplate(text, "--to").filled_target(topic, "iceberg")
    assert found == filled
    iceberg_name(found)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("./lake/{tables}", r"no placeholder \{tables\}, only \{table\}, \{schema\}, \{database\}, \{topic\}"),
        ("./lake/{}/{table}", r"no placeholder \{\}"),
        ("./lake", r"'./lake' is the same for all topics: --topic-pattern needs \{table\} or \{topic\} in it"),
        ("./lake/{schema}", "is the same for all topics"),
    ],
)
def test_a_template_that_cannot_name_tables_is_refused(text: str, told: str) -> None:
    with pytest.raises(WronglyAsked, match=told):
        NameTemplate(text, "--to")


@pytest.mark.parametrize(("text", "topic"), [("{schema}.{table}", "orders"), ("{table}", "shop."), ("{table}", "a..")])
def test_a_topic_without_such_a_part_is_refused(text: str, topic: str) -> None:
    with pytest.raises(WronglyAsked, match=rf"--to: the name of topic {topic} has no part for"):
        NameTemplate(text, "--to").filled(topic)


def test_a_schema_is_a_file_for_each_table_only_with_a_placeholder() -> None:
    assert is_file_per_table("@schemas/{table}.sql")
    assert not any(map(is_file_per_table, ("@orders.sql", "{table}", '{"type": "struct"}', "@{x}")))


@pytest.mark.parametrize("text", ["lake..shop.{table}", "lake.db.`{table}", ".lake.db.{table}", "lake.db.{table}."])
def test_a_name_that_is_no_icebergs_stays_so_and_is_refused(text: str) -> None:
    with pytest.raises(WronglyAsked, match="is not an Iceberg table"):
        iceberg_name(NameTemplate(text, "--to").filled_target("shop.public.orders", "iceberg"))
