"""A merge's branch is published if main has not moved, on a table in memory that behaves as Iceberg's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException

from kafka_zk.spark_jobs.extraction.manifest import Manifest, State
from kafka_zk.spark_jobs.extraction.merge.iceberg_merge import _Branch

MANIFEST = Manifest(State.PLANNED, (), "lake.db.t", "range=…", "staging/range=…-ab12", "iceberg", 0, "cd34", 7)
BRANCH = "kafka_zk_cd34_ab12"


class JavaError(Py4JJavaError):  # type: ignore[misc]
    def __init__(self, text: str) -> None:
        Exception.__init__(self, text)

    def __str__(self) -> str:
        return str(self.args[0])


class Snapshot:
    def __init__(self, number: int, parent: int | None) -> None:
        self._number, self._parent = number, parent

    def snapshotId(self) -> int:
        return self._number

    def parentId(self) -> int | None:
        return self._parent


class Table:
    """``before_fast_forward`` is called before each fast-forward, and may raise."""

    def __init__(self) -> None:
        self.parents: dict[int, int | None] = {1: None}
        self.heads = {"main": 1, "of_another": 1}
        self.before_fast_forward: list[Callable[[], None]] = []
        self.after_fast_forward: list[Callable[[], None]] = []

    def commit_to(self, name: str) -> None:
        number = len(self.parents) + 1
        self.parents[number] = self.heads.get(name, self.heads["main"])
        self.heads[name] = number

    def refresh(self) -> None:
        pass

    def currentSnapshot(self) -> Snapshot:
        return Snapshot(self.heads["main"], self.parents[self.heads["main"]])

    def snapshot(self, name: str) -> Snapshot | None:
        return Snapshot(self.heads[name], self.parents[self.heads[name]]) if name in self.heads else None

    def refs(self) -> Any:
        return MagicMock(keySet=lambda: set(self.heads))

    def manageSnapshots(self) -> Table:
        return self

    def createBranch(self, name: str, number: int) -> Any:
        return MagicMock(commit=lambda: self.heads.update({name: number}))

    def removeBranch(self, name: str) -> Any:
        return MagicMock(commit=lambda: self.heads.pop(name))

    def fastForwardBranch(self, name: str, other: str) -> Any:
        def commit() -> None:
            if self.before_fast_forward:
                self.before_fast_forward.pop(0)()
            ancestor: int | None = self.heads[other]
            while ancestor is not None and ancestor != self.heads[name]:
                ancestor = self.parents[ancestor]
            if ancestor is None:
                raise IllegalArgumentException("Cannot fast-forward: main is not an ancestor")  # as PySpark converts it
            self.heads[name] = self.heads[other]
            if self.after_fast_forward:
                self.after_fast_forward.pop(0)()

        return MagicMock(commit=commit)


@pytest.fixture
def table() -> Table:
    return Table()


def branch_of(table: Table, merge: Callable[[], None]) -> _Branch:
    spark = MagicMock(sql=lambda _: merge())
    spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable.return_value = table
    return _Branch(spark, "lake.db.t", MANIFEST)


def failing(text: str) -> Callable[[], None]:
    def fail() -> None:
        raise JavaError(text)

    return fail


def test_the_merge_becomes_the_head_and_no_branch_is_left(table: Table) -> None:
    table.heads["kafka_zk_cd34_dead"] = 1
    branch = branch_of(table, lambda: table.commit_to(BRANCH))
    assert branch.name == f"lake.db.t.branch_{BRANCH}"
    assert branch.publish("MERGE …", "records")
    assert table.heads == {"main": 2, "of_another": 1}


def test_beside_a_foreign_commit_nothing_is_published(table: Table) -> None:
    table.before_fast_forward.append(lambda: table.commit_to("main"))
    assert not branch_of(table, lambda: table.commit_to(BRANCH)).publish("MERGE …", "records")
    assert table.heads == {"main": 3, "of_another": 1}


def test_a_commit_that_leaves_the_head_only_delays(table: Table) -> None:
    table.before_fast_forward += [failing("CommitFailedException: metadata has changed")] * 2
    assert branch_of(table, lambda: table.commit_to(BRANCH)).publish("MERGE …", "records")


def test_a_lost_answer_is_looked_up(table: Table) -> None:
    table.after_fast_forward.append(failing("CommitStateUnknownException"))
    assert branch_of(table, lambda: table.commit_to(BRANCH)).publish("MERGE …", "records")


def test_other_errors_are_raised(table: Table) -> None:
    table.before_fast_forward.append(failing("ForbiddenException"))
    with pytest.raises(JavaError, match="Forbidden"):
        branch_of(table, lambda: table.commit_to(BRANCH)).publish("MERGE …", "records")
    assert table.heads == {"main": 1, "of_another": 1}


def test_a_run_that_lost_its_branch_publishes_nothing(table: Table) -> None:
    """Iceberg commits to an absent branch as if it had begun at main's head, which may have the plan by now."""

    def merged_by_another() -> None:
        table.commit_to("main")
        del table.heads[BRANCH]
        table.commit_to(BRANCH)

    assert not branch_of(table, merged_by_another).publish("MERGE …", "records")
    assert table.heads == {"main": 2, "of_another": 1}


def test_a_branch_that_is_gone_is_not_published(table: Table) -> None:
    def removed() -> None:
        table.commit_to(BRANCH)
        del table.heads[BRANCH]

    assert not branch_of(table, removed).publish("MERGE …", "records")
