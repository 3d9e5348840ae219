"""Adds staged files to a Delta table in one of Delta's own transactions, in the driver's JVM.

The transaction checks for conflicts, numbers the commit and writes checkpoints, as for Delta's own writer.
"""

import json
import os
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow.parquet as pq

from kafka_zk.base.clock import wall_ms
from kafka_zk.spark_jobs.errors import ExtractionFailed
from kafka_zk.spark_jobs.extraction.direct import delta_actions, staged_files
from kafka_zk.spark_jobs.extraction.direct.staged_files import StagedFile
from kafka_zk.spark_jobs.extraction.parquet.job import local_path

_DEFAULTS = "spark.databricks.delta.properties.defaults."
_PACKAGE = "org.apache.spark.sql.delta"


class Columns(NamedTuple):
    """``written``: the columns in the files, a ``StructType``. ``partitioned_by``: the columns that name folders;
    derived ones are not in ``written``."""

    written: Any
    partitioned_by: Sequence[str]

    def as_table(self) -> dict[str, Any]:
        """The columns of the table that Spark would create."""
        fields = delta_actions.nullable(json.loads(self.written.json()))["fields"]
        names = [field["name"] for field in fields]
        derived = [name for name in self.partitioned_by if name not in names]
        return {
            "fields": fields + [{"name": name, "type": "string", "nullable": True, "metadata": {}} for name in derived]
        }


class Transactions(Protocol):
    """The application transactions in a commit, by which Delta accepts the commit at most once.

    ``change``: a Delta transaction. Because it has read the applications' versions, it conflicts with a concurrent
    commit that changes them.
    """

    def check(self, change: Any) -> None:
        """Raises ForeignCommit if the versions are no longer those that the commit needs."""
        ...

    def are_committed(self, change: Any) -> bool: ...

    def actions(self, now_ms: int) -> list[str]: ...


class Plan(NamedTuple):
    """The application transaction that names one plan."""

    application: str
    version: int

    def check(self, change: Any) -> None:
        """Check nothing, because a plan does not depend on other writers' commits."""

    def are_committed(self, change: Any) -> bool:
        return bool(change.txnVersion(self.application) >= self.version)

    def actions(self, now_ms: int) -> list[str]:
        return [delta_actions.transaction(self.application, self.version, now_ms)]


class DeltaCommit:
    """``target``: the table's local folder, as a URI."""

    def __init__(self, spark: Any, target: str) -> None:
        self._spark = spark
        self._jvm = spark._jvm
        self._target = target

    def refusal_of_table(self, columns: Columns) -> str | None:
        """Why Delta's own writer must write into the existing table; None if ``add`` can add files."""
        found = self._log().forTableWithSnapshot(self._spark._jsparkSession, self._target)._2()
        return self._refusal(found, columns)

    def refusal_of_new_table(self) -> str | None:
        """The setting of the session for which Delta's own writer must create the table, because it may give new tables
        any feature; None if there is none."""
        return next((name for name in sorted(self._spark.conf.getAll) if name.startswith(_DEFAULTS)), None)

    def add(self, files: Sequence[StagedFile], columns: Columns, transactions: Transactions, note: str) -> None:
        """Move the files to the table's folder and commit them, unless the transactions are committed.

        If the commit fails, they are deleted. Raises ExtractionFailed if the table has changed since
        ``refusal_of_table``; ForeignCommit, Delta's errors, OSError.
        """
        change = self.begun()
        transactions.check(change)
        if transactions.are_committed(change):
            return
        if because := self._refusal(change, columns):
            raise staged_files.changed_meanwhile(self._target, because)
        places = [os.path.join(local_path(self._target), each.name) for each in files]
        now_ms = wall_ms()
        actions = transactions.actions(now_ms)
        try:
            for each, moved in zip(files, places, strict=True):
                os.rename(each.path, moved)
                found = delta_actions.statistics(pq.read_metadata(moved))
                actions.append(delta_actions.add_file(each.name, each.folder, os.path.getsize(moved), now_ms, found))
            change.commit(self._actions(actions), self._operation(columns.partitioned_by, note))
        except staged_files.REFUSALS:
            if not transactions.are_committed(self.begun()):  # otherwise the failure came after the commit
                staged_files.delete(places)
            raise

    def write(self, frame: Any, columns: Columns, transactions: Transactions, note: str) -> None:
        """Let Delta write the rows of ``frame``, and commit them like ``add``.

        Raises ExtractionFailed if the table has other columns; ForeignCommit, Delta's errors.
        """
        change = self.begun()
        transactions.check(change)
        fields = json.loads(json.loads(change.metadata().json())["metaData"]["schemaString"])["fields"]
        if told := delta_actions.other_columns(fields, columns.as_table()["fields"]):
            raise ExtractionFailed(f"the columns of {self._target} differ from those of the extraction: {told}")
        found = change.writeFiles(frame._jdf).toList()
        ours = self._actions(transactions.actions(wall_ms()))
        change.commit(found.concat(ours), self._operation(columns.partitioned_by, note))

    def begun(self) -> Any:
        """Begin a transaction on the table's newest version."""
        return self._log().forTable(self._spark._jsparkSession, self._target).startTransaction()

    def _refusal(self, snapshot: Any, columns: Columns) -> str | None:
        protocol = json.loads(snapshot.protocol().json())["protocol"]
        metadata = json.loads(snapshot.metadata().json())["metaData"]
        return delta_actions.sparks_writer_because(protocol, metadata, columns.as_table(), columns.partitioned_by)

    def _log(self) -> Any:
        return self._jvm.org.apache.spark.sql.delta.DeltaLog

    def _actions(self, documents: Sequence[str]) -> Any:
        parse = self._jvm.org.apache.spark.sql.delta.actions.Action.fromJson
        return self._scala_list([parse(each) for each in documents])

    def _operation(self, partitioned_by: Sequence[str], note: str) -> Any:
        """An append, as the table's history names it."""
        option, java = self._jvm.scala.Option, self._jvm.java.lang
        loader = java.Thread.currentThread().getContextClassLoader()
        write = java.Class.forName(f"{_PACKAGE}.DeltaOperations$Write", True, loader).getConstructors()[0]
        arguments = [self._jvm.org.apache.spark.sql.SaveMode.Append, option.apply(self._scala_list(partitioned_by))]
        arguments += [option.empty(), option.apply(note)]
        arguments += [option.empty()] * (write.getParameterCount() - len(arguments))
        given = self._spark.sparkContext._gateway.new_array(java.Object, len(arguments))
        for index, argument in enumerate(arguments):
            given[index] = argument
        return write.newInstance(given)

    def _scala_list(self, items: Sequence[Any]) -> Any:
        found = self._jvm.java.util.ArrayList()
        for each in items:
            found.add(each)
        return self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(found).toList()
