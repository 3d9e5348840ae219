"""All topics of a database, with an extraction of one topic that needs neither Spark nor a cluster."""

from collections.abc import Callable
from typing import Any

import pytest

from kafka_zk.registry.client.errors import ConnectionTimeout
from kafka_zk.spark_jobs.errors import DataLoss, ExtractionFailed, JavaDied, WronglyAsked
from kafka_zk.spark_jobs.extraction import options
from kafka_zk.spark_jobs.extraction.database.name_templates import NameTemplate
from kafka_zk.spark_jobs.extraction.database.results import Outcome, TopicResult
from kafka_zk.spark_jobs.extraction.database.run import Database, SharedSpark, Single, extract_topics
from kafka_zk.spark_jobs.extraction.database.table_schemas import NoColumns, TableSchemas
from kafka_zk.spark_jobs.extraction.database.topic_tables import TopicTable
from kafka_zk.spark_jobs.extraction.planning import Extraction, PartitionReport, Report

DONE = Report((), 5, 0, ("published",), "nothing")
IDLE = Report((), 0, 0, (), "nothing")


def database(**more: Any) -> Database:
    options = {"zookeeper": "z", "group": "lake", "topics": ("t",), "target": "x", "format": "delta", **more}
    return Database(pattern=r"shop\..*", one=Extraction(**options), target=NameTemplate("lake/{table}", "--to"))


class Cluster:
    """``records``: topic -> new records. ``broken``: topics whose extraction raises."""

    def __init__(self, *topics: str) -> None:
        self.records = dict.fromkeys(topics, 5)
        self.broken: dict[str, Exception] = {}
        self.extracted: list[Extraction] = []
        self.starts = 0
        self.notes: list[str] = []

    def start_spark(self) -> str:
        self.starts += 1
        return "the session"

    def one(self, spark: Any, extraction: Extraction) -> Report:
        (topic,) = extraction.topics
        self.extracted.append(extraction)
        if topic in self.broken:
            raise self.broken[topic]
        if not self.records.get(topic):
            return IDLE
        self.records[topic] = 0
        assert (spark() if callable(spark) else spark) == "the session"
        return DONE

    def run(self, asked: Database | None = None) -> dict[str, TopicResult]:
        asked = asked or database()

        def extraction_of(table: TopicTable) -> Extraction | None:
            return asked.extraction(table, NoSchemas())

        found = extract_topics(
            asked.tables(self.records), asked, extraction_of, self.one, SharedSpark(self.start_spark),
            explain=str, note=self.notes.append,
        )  # fmt: skip
        return {each.topic: each for each in found}


class NoSchemas(TableSchemas):
    def __init__(self) -> None:
        pass


def outcomes(found: dict[str, TopicResult]) -> dict[str, Outcome]:
    return {topic: each.outcome for topic, each in found.items()}


def test_each_topic_goes_into_its_table_in_a_group_of_its_own_and_one_spark() -> None:
    cluster = Cluster("shop.public.a", "shop.public.b", "shop.transaction")
    assert outcomes(cluster.run()) == {
        "shop.public.a": Outcome.EXTRACTED, "shop.public.b": Outcome.EXTRACTED, "shop.transaction": Outcome.LEFT_OUT
    }  # fmt: skip
    assert [(each.topics, each.target, each.group, each.format) for each in cluster.extracted] == [
        (("shop.public.a",), "lake/a", "lake.shop.public.a", "delta"),
        (("shop.public.b",), "lake/b", "lake.shop.public.b", "delta"),
    ]
    assert cluster.starts == 1


def test_without_zookeeper_all_topics_have_the_one_group() -> None:
    cluster = Cluster("shop.public.a")
    cluster.run(database(zookeeper="", bootstrap_servers="h:9092"))
    assert cluster.extracted[0].group == "lake"


def test_a_topic_that_fails_stops_no_other_and_is_tried_again() -> None:
    cluster = Cluster("shop.public.a", "shop.public.b", "shop.public.c")
    cluster.broken = {"shop.public.b": ExtractionFailed("a value cannot be decoded")}
    found = cluster.run()
    assert list(outcomes(found).values()) == [Outcome.EXTRACTED, Outcome.FAILED, Outcome.EXTRACTED]
    assert found["shop.public.b"].reason == "a value cannot be decoded"
    assert "2/3 shop.public.b: failed: a value cannot be decoded" in cluster.notes
    cluster.broken = {}
    assert list(outcomes(cluster.run()).values()) == [Outcome.NOTHING_NEW, Outcome.EXTRACTED, Outcome.NOTHING_NEW]


def test_a_new_topic_gets_its_table_at_the_next_run_and_spark_starts_only_then() -> None:
    cluster = Cluster("shop.public.a")
    cluster.records["shop.public.a"] = 0
    cluster.run()
    assert cluster.starts == 0
    cluster.records["shop.public.b"] = 5
    assert outcomes(cluster.run()) == {"shop.public.a": Outcome.NOTHING_NEW, "shop.public.b": Outcome.EXTRACTED}
    assert cluster.starts == 1


def test_200_topics_have_200_results() -> None:
    cluster = Cluster(*(f"shop.public.t{number:03}" for number in range(200)))
    cluster.broken = {f"shop.public.t{number:03}": ExtractionFailed("no") for number in range(0, 200, 20)}
    found = list(outcomes(cluster.run()).values())
    assert (found.count(Outcome.EXTRACTED), found.count(Outcome.FAILED)) == (190, 10)
    assert cluster.starts == 1


@pytest.mark.parametrize("error", [JavaDied("dead"), ConnectionTimeout("no ZooKeeper")], ids=lambda each: str(each))
def test_after_the_end_of_java_or_zookeeper_no_other_topic_waits_for_it(error: Exception) -> None:
    cluster = Cluster("shop.public.a", "shop.public.b", "shop.public.c")
    cluster.broken = {"shop.public.b": error}
    found = cluster.run()
    assert list(outcomes(found).values()) == [Outcome.EXTRACTED, Outcome.FAILED, Outcome.NOT_TRIED]
    assert found["shop.public.c"].reason == "the run ended at topic shop.public.b"


def test_a_spark_that_does_not_start_ends_the_run() -> None:
    cluster = Cluster("shop.public.a", "shop.public.b")
    cluster.start_spark = fail  # type: ignore[method-assign]
    with pytest.raises(ExtractionFailed, match="Spark did not start"):
        cluster.run()
    assert len(cluster.extracted) == 1


def fail() -> str:
    raise ExtractionFailed("Spark did not start")


class Schemas(NoSchemas):
    def __init__(self, found: Callable[[str], str | None]) -> None:
        self._found = found

    def of_events(self, topic: str) -> str | None:
        return self._found(topic)


def test_change_events_have_the_columns_of_their_own_schema() -> None:
    asked = database(cdc="debezium")
    of_a = asked.extraction(TopicTable("shop.public.a", "lake/a"), Schemas(lambda topic: f"{topic[-1]} INT"))
    assert of_a is not None and of_a.schema == "a INT"
    given = database(cdc="debezium", schema="id INT").extraction(TopicTable("t", "lake/t"), Schemas(refuse))
    assert given is not None and given.schema == "id INT"
    assert asked.extraction(TopicTable("shop.public.a", "lake/a"), Schemas(lambda _: None)) is None


def refuse(topic: str) -> str | None:
    raise WronglyAsked("not to be asked")


def test_a_topic_without_values_is_idle_or_fails_by_what_its_group_has_yet_to_extract() -> None:
    """Retention or compaction has removed the values that would show the columns of the topic's table."""
    asked = database(cdc="debezium")
    (table,) = asked.tables(["shop.public.a"])
    nothing = NoColumns("no record of topic shop.public.a has a value")

    def run(single: Single, *, is_plan: bool = False) -> TopicResult:
        (found,) = extract_topics(
            [table], asked, lambda table: asked.extraction(table, Schemas(raise_it)), single, SharedSpark(fail),
            explain=str, note=lambda _: None, is_plan=is_plan,
        )  # fmt: skip
        return found

    def raise_it(topic: str) -> str | None:
        raise nothing

    def idle(spark: Any, extraction: Extraction) -> Report:
        assert (extraction.topics, extraction.group) == (("shop.public.a",), "lake.shop.public.a")
        options.check(extraction)
        return IDLE

    def lost(spark: Any, extraction: Extraction) -> Report:
        raise DataLoss("records are gone")

    def planned(spark: Any, extraction: Extraction) -> Report:
        return Report((PartitionReport("shop.public.a", 0, 3, 5, 2, 0),), 0, 0, (), "nothing")

    assert run(idle).outcome is Outcome.NOTHING_NEW
    for single, reason in ((lambda spark, _: spark(), str(nothing)), (lost, "records are gone")):
        found = run(single)
        assert (found.outcome, found.reason) == (Outcome.FAILED, reason)
    found = run(planned, is_plan=True)
    assert (found.outcome, found.reason) == (Outcome.FAILED, str(nothing))
