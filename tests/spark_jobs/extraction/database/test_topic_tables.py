"""The topics of a cluster as tables."""

import pytest

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.extraction.database.name_templates import NameTemplate
from kafka_zk.spark_jobs.extraction.database.topic_tables import TopicTable, check_pattern, topic_tables


def mapped(topics: list[str], pattern: str, to: str = "lake/{table}", format: str = "delta") -> list[TopicTable]:
    return topic_tables(
        topics, pattern, NameTemplate(to, "--to"), format, has_events=True, dead_letter_topic="shop.dead.letters"
    )


def test_the_pattern_matches_whole_names_as_javas_does() -> None:
    topics = ["shop.public.b", "shop.public.a", "shop.public", "workshop.public.c", "shopXpublic.d"]
    assert mapped(topics, r"shop\.\p{Lower}+\.[ab]") == [
        TopicTable("shop.public.a", "lake/a"), TopicTable("shop.public.b", "lake/b")
    ]  # fmt: skip
    assert not mapped(topics, "public")


def test_left_out_topics_are_listed_with_their_reason() -> None:
    topics = ["shop.public.a", "shop.transaction", "shop.dead.letters"]
    assert {each.topic: each.left_out for each in mapped(topics, ".*")} == {
        "shop.public.a": "",
        "shop.transaction": "begins and ends of Debezium's transactions",
        "shop.dead.letters": "dead letters of this command",
    }


def test_tables_of_a_prefix_count_even_if_they_do_not_match() -> None:
    (found,) = mapped(["shop.public.a", "shop.message"], r"shop\.message")
    assert found.left_out


def test_topics_of_one_table_are_refused_and_the_others_are_not() -> None:
    found = {each.topic: each for each in mapped(["a.x.orders", "a.y.orders", "a.x.lines"], ".*")}
    assert found["a.x.lines"] == TopicTable("a.x.lines", "lake/lines")
    for topic, other in (("a.x.orders", "a.y.orders"), ("a.y.orders", "a.x.orders")):
        assert found[topic].refused.startswith(f"topic {other} would go into the same table lake/orders: give --to")
        assert not found[topic].target


def test_catalogs_of_iceberg_may_not_distinguish_upper_and_lower_case() -> None:
    topics = ["a.x.Orders", "a.x.orders"]
    assert all(each.refused for each in mapped(topics, ".*", "lake.db.{table}", "iceberg"))
    assert not any(each.refused for each in mapped(topics, ".*"))


def test_a_topic_that_lacks_a_part_is_refused_alone() -> None:
    found = mapped(["orders", "a.x.lines"], ".*", "lake/{schema}/{table}")
    assert [(each.topic, bool(each.refused)) for each in found] == [("a.x.lines", False), ("orders", True)]


def test_what_java_does_not_compile_is_refused() -> None:
    check_pattern(r"shop\.(?!public\.secrets$).*")
    with pytest.raises(WronglyAsked, match="--topic-pattern: '\\(': "):
        check_pattern("(")
