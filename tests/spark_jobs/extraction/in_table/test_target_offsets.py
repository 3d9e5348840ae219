"""Which extractions run without ZooKeeper."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.extraction import options
from kafka_zk.spark_jobs.extraction.planning import Extraction

CDC = {"cdc": "keyed", "schema": "id INT"}


def asked(**more: Any) -> Extraction:
    fields = {"bootstrap_servers": "h:9092", "group": "lake", "topics": "flights", "target": "/t", "format": "delta"}
    return Extraction(**{**fields, **more})


def test_a_delta_table_has_the_offsets() -> None:
    options.check(asked())


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"format": "parquet"}, "--bootstrap-server needs --format delta"),
        ({"format": "iceberg", "target": "lake.db.t"}, "--bootstrap-server needs --format delta"),
        (CDC, "cannot be combined with --cdc"),
        ({"merge_schema": True}, "cannot be combined with --merge-schema"),
        ({"widen": True}, "cannot be combined with --widen"),
        ({"wait_ms": 1.0}, "cannot be combined with --wait"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, dict) else "",
)
def test_what_cannot_do_without_zookeeper_is_refused(more: dict[str, Any], told: str) -> None:
    with pytest.raises(WronglyAsked, match=told):
        options.check(asked(**more))


@pytest.mark.parametrize("more", [{"zookeeper": "h:2181"}, {"bootstrap_servers": None}], ids=["both", "neither"])
def test_the_offsets_are_in_one_place(more: dict[str, Any]) -> None:
    with pytest.raises(WronglyAsked, match="give --zookeeper, or --bootstrap-server"):
        asked(**more)
