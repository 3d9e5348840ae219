"""A run merges the rows of a plan only if its deleted keys are in the second table."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any
from unittest.mock import MagicMock

import pytest

from kafka_zk.spark_jobs.extraction.manifest import Manifest, State
from kafka_zk.spark_jobs.extraction.merge.delta_merge import DELETED_FOLDER, MergedDeltaTables
from kafka_zk.spark_jobs.extraction.merge.fold_job import Folded
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.table_lake import FENCE, RECORDS

MANIFEST = Manifest(State.PLANNED, (), "/t", "range=…", "staging/range=…-ab12", "delta", 0, "cd34", 7)
EXTRACTION = Extraction(
    zookeeper="z", group="g", topics=("t",), target="/t", format="delta", cdc="keyed", schema="id INT"
)  # fmt: skip


@pytest.mark.parametrize(("has_dead", "second", "merged"), [
    (True, RECORDS, ["/t/_kafka_zk_deleted", "/t"]),
    (True, FENCE, ["/t/_kafka_zk_deleted"]),
    (False, FENCE, ["/t"]),
])  # fmt: skip
def test_rows_stay_if_delta_ignored_the_merge_of_their_deleted_keys(
    has_dead: bool, second: str, merged: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A paused run may find only the second table fenced. Delta then ignores its merge there, but would carry out the
    other one.
    """
    found: list[str] = []

    @contextmanager
    def folded(*_: Any) -> Any:
        yield Folded(None, has_dead)

    spark = MagicMock(sql=lambda statement: found.append(statement.split("`")[1]))
    tables = MergedDeltaTables(spark, EXTRACTION)
    monkeypatch.setattr(tables._fold, "folded", folded)
    monkeypatch.setattr(tables, "_topic_of", lambda _: "t")
    commits = {f"/t/{DELETED_FOLDER}": second}
    monkeypatch.setattr(tables, "commit_of", lambda manifest: commits.get(manifest.target))
    tables.append(MagicMock(), MANIFEST, RECORDS, EXTRACTION)
    assert found == merged
