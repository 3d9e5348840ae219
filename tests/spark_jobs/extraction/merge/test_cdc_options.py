"""What --cdc refuses before anything runs."""

from dataclasses import replace

import pytest

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.extraction import options
from kafka_zk.spark_jobs.extraction.merge.cdc_options import staged_as
from kafka_zk.spark_jobs.extraction.planning import Extraction

ASKED = Extraction(
    zookeeper="z", group="g", topics=("t",), target="/lake", format="delta", cdc="debezium", schema="id INT, v STRING"
)


def test_a_schema_and_a_table_are_enough() -> None:
    options.check(ASKED)
    options.check(replace(ASKED, format="iceberg", target="lake.db.t"))


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (replace(ASKED, format="parquet"), "into --format delta or iceberg only"),
        (replace(ASKED, format="iceberg"), "is not an Iceberg table"),
        (replace(ASKED, topics=("t", "u")), "one topic"),
        (replace(ASKED, schema=None), "needs --schema"),
        (replace(ASKED, schema="id UUID"), "the type UUID"),
        (replace(ASKED, schema="_Kafka_zk INT"), "--cdc's own"),
        (replace(ASKED, cdc="maxwell"), "'maxwell' is not debezium or keyed"),
        (replace(ASKED, decode="json"), "with --decode"),
        (replace(ASKED, value_format="protobuf", schema_registry="http://r"), "with --value-format other than avro"),
        (replace(ASKED, select="*"), "with --select"),
        (replace(ASKED, partition_by=("id",)), "with --partition-by"),
        (replace(ASKED, from_ms=0, until_ms=1), "with --from"),
        (replace(ASKED, merge_schema=True), "with --merge-schema"),
    ],
)
def test_what_a_merge_cannot_do_is_refused(asked: Extraction, told: str) -> None:
    with pytest.raises(WronglyAsked, match=told):
        options.check(asked)


def test_the_unchanged_records_are_staged_with_their_headers() -> None:
    staged = staged_as(ASKED)
    assert (staged.is_raw, staged.include, staged.schema) == (True, ("headers",), None)
    plain = replace(ASKED, cdc=None)
    assert staged_as(plain) is plain


def test_avro_is_staged_as_it_is() -> None:
    asked = replace(ASKED, value_format="avro", schema_registry="http://r")
    options.check(asked)
    assert staged_as(asked).is_raw
