"""Expected errors of the Spark jobs. Each message is one sentence for the user."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

_HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"


class SourceError(Exception):
    """Base of the errors here."""


class OptionError(SourceError, ValueError):
    """An option is unknown or missing, or it contradicts another one."""


class DataLoss(SourceError):
    """Records of the planned range are gone: retention, truncation, or the topic was recreated."""


class FetchFailed(SourceError):
    """Brokers did not respond in the time that the options allow."""


class AuthenticationError(SourceError):
    """A broker rejects the credentials, or this client rejects the broker's certificate. A retry does not help."""


class WriteFailed(SourceError):
    """Records were not written to a topic, or a transaction could not be ended."""


class ExtractionFailed(SourceError):
    """An extraction failed; the next run finishes or drops its leftovers."""


class WronglyAsked(ExtractionFailed):
    """A schema, column, format or target is impossible. Nothing was done."""


class ChangeRefused(ExtractionFailed):
    """A change event lacks a key or an order, has an unknown form, or has a value that its column's type cannot
    hold."""


class Undecodable(ExtractionFailed):
    """More values than allowed cannot be decoded. Nothing was published, and the offsets have not moved."""


class JavaDied(ExtractionFailed):
    """The Java process of Spark's driver ended during the run (killed, or out of memory)."""


class ZooKeeperLost(ExtractionFailed):
    """The connection to ZooKeeper broke at a point where the run could not wait for a new one."""


class GroupBusy(ExtractionFailed):
    """Another live member is in the group, or owns one of the partitions."""


class ForeignCommit(ExtractionFailed):
    """Another client has changed the offsets. Nothing was published, and the staging folder was removed."""


class AuditFailed(SourceError):
    """A table cannot be examined: the table, one of its files or a column was not found, or is not understood."""


@contextmanager
def reason_only() -> Iterator[None]:
    """In a Python worker of Spark, report expected errors as one sentence without a traceback.

    A worker reads SPARK_HIDE_TRACEBACK when it reports its error, and then exits; no other process reads the variable.
    spark.sql.execution.pyspark.udf.hideTraceback.enabled sets it for all errors.
    """
    try:
        yield
    except SourceError:
        os.environ[_HIDE_TRACEBACK] = "1"
        raise
