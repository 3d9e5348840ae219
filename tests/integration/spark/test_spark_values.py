"""Decoding of values with a real Spark: the result is the same value, or none."""

import hmac
import json
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.extraction import decoding, partitioning
from kafka_zk.spark_jobs.extraction.job import extract
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.record_frames import RecordFrames
from kafka_zk.testing.plugin import MakeTopic
from tests.integration.spark.sessions import spark  # noqa: F401
from tests.integration.spark.test_spark_extraction import frame_of, write

pytestmark = [pytest.mark.integration, pytest.mark.spark]

DDL = (
    "b TINYINT, s STRING, d DECIMAL(9,2), t TIMESTAMP, n TIMESTAMP_NTZ, day DATE, f FLOAT, l ARRAY<TINYINT>, "
    "m MAP<STRING,STRUCT<b:TINYINT>>, bin BINARY, v VARIANT, k STRING"
)
KEPT = {
    "b": "127", "s": '"gr\\u00fc\\ud83d\\ude00"', "d": '"1.5"', "t": "1700000000", "n": '"2026-01-01T00:00:00.123456"',
    "day": '"2026-01-05"', "f": "0.1", "l": "[1,-128,null]", "m": '{"x":{"b":1}}', "bin": '"AAE="', "v": '{"a":1.10}',
}  # fmt: skip
CHANGED = {
    "b": "200", "s": '"x\\ud83dy"', "d": '"1,5"', "t": "1700000000123", "n": '"2026-01-01T00:00:00.1234567"',
    "day": '"2026-01-05T10:00"', "f": "16777217", "l": "[1,200]", "m": '{"x":{"b":200}}',
    "v": '{"a":1e400}',
}  # fmt: skip


def test_json_that_from_json_changes_is_undecodable(spark: Any) -> None:  # noqa: F811
    wrapping = {"t": "92233720368547759"}  # seconds, times 1,000,000
    texts = [f'{{"{name}":{text},"k":"x"}}' for group in (KEPT, CHANGED, wrapping) for name, text in group.items()]
    whitespace = [b"null\n", b"\tnull\r\n"]
    frame = frame_of(spark, [*(text.encode() for text in texts), *whitespace])
    rows = decoding.decoded(frame, "json", DDL, "keep", "parquet").orderBy("offset").collect()
    kept, changed = rows[: len(KEPT)], rows[len(KEPT) : len(texts)]
    for (name, text), row in zip(KEPT.items(), kept, strict=True):
        assert row[decoding.FITS] is True and row[name] is not None and row.raw_value is None, (name, text)
    for (name, text), row in zip([*CHANGED.items(), *wrapping.items()], changed, strict=True):
        assert (row[decoding.FITS], row[name]) == (False, None), (name, text)
        assert row.k == "x" and row.raw_value is not None, "what fits is not lost"
    assert changed[0][decoding.REASON] == "does not come back as written: b"
    assert [row[decoding.FITS] for row in rows[len(texts) :]] == [True, True]


MASKED = {"email": "a@b.c", "card": 4111111111111234}
MASK_KEY = b"0123456789abcdef"


@pytest.mark.parametrize("format_name", ["csv", "json"])
def test_files_of_text_keep_microseconds_and_spaces_and_no_masked_value(
    spark: Any, kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, tmp_path: Path, format_name: str  # noqa: F811
) -> None:
    topic = make_topic()
    value = {"s": " x ", "at": "2026-01-01T00:00:00.123456Z", "n": "2026-01-01T00:00:00.000001"}
    write(kafka_zk_cluster, topic, [json.dumps({**value, **MASKED}).encode()])
    wanted = Extraction(
        zookeeper=kafka_zk_cluster.zookeeper_connect, group=f"g-{topic}", topics=(topic,),
        target=str(tmp_path / "lake"), format=format_name,
        decode="json", schema="s STRING, at TIMESTAMP, n TIMESTAMP_NTZ, email STRING, card BIGINT",
        mask=("email=hmac", "card=keep4"), mask_key=MASK_KEY, where="email NOT LIKE '%@%'",
    )  # fmt: skip
    assert extract(spark, wanted).undecodable == 0
    (file,) = (tmp_path / "lake").glob(f"range=*/part-*.{format_name}")
    text = file.read_text()
    assert " x " in text and "T00:00:00.123456Z" in text and "2026-01-01T00:00:00.000001" in text
    assert hmac.digest(MASK_KEY, b"a@b.c", "sha256").hex() in text and "************1234" in text
    assert not any(str(secret) in text for secret in MASKED.values())


def test_hours_are_those_of_utc_where_the_sessions_zone_leaves_one_out(spark: Any) -> None:  # noqa: F811
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        times = "timestamp_millis(1774751400000) AS t, timestamp_ntz'2026-03-29 02:30:00' AS n, date'2026-03-29' AS d"
        terms = ("hours(t)", "days(t)", "months(t)", "years(t)", "hours(n)", "hours(d)")
        (row,) = partitioning.with_columns(spark.sql(f"SELECT {times}"), terms).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert (row.t_hour, row.t_day, row.t_month, row.t_year) == ("2026-03-29-02", "2026-03-29", "2026-03", "2026")
    assert (row.n_hour, row.d_hour) == ("2026-03-29-02", "2026-03-29-00")


@pytest.mark.parametrize("select", ["count(*) AS n", "DISTINCT key", "max(offset) AS o", "explode(array(1, 2)) AS e"])
def test_a_selection_that_summarizes_records_is_refused(spark: Any, select: str) -> None:  # noqa: F811
    """The selection's result would be one row for many records, which the group would count as extracted."""
    asked = Extraction(zookeeper="z", group="g", topics=("t",), target="/lake", select=select)
    if "explode" in select:
        RecordFrames(spark, asked).check()
        return
    with pytest.raises(WronglyAsked, match="--select must not summarize records"):
        RecordFrames(spark, asked).check()
