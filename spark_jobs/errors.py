"""Errors that the Spark jobs raise on purpose; each message is one sentence for the person who runs the job."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

_HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"


class SourceError(Exception):
    """Base of the errors of the data source and the extraction."""


class OptionError(SourceError, ValueError):
    """An option is unknown, missing or contradicts another one."""


class DataLoss(SourceError):
    """Records of the planned range are gone: retention, truncation, or the topic was recreated."""


class FetchFailed(SourceError):
    """Brokers did not answer as needed within the patience that the options give."""


class AuthenticationError(SourceError):
    """A broker rejects our credentials, or we reject its certificate; a retry does not help."""


class WriteFailed(SourceError):
    """Records could not be written to a topic, or a transaction could not be ended."""


class ExtractionFailed(SourceError):
    """The extraction failed; the next run finishes or drops what is left of it."""


class WronglyAsked(ExtractionFailed):
    """A schema, column, format or target is not possible; nothing was done."""


class Undecodable(ExtractionFailed):
    """More values cannot be decoded than allowed; nothing was published and the offsets have not moved."""


class JavaDied(ExtractionFailed):
    """The Java process of Spark's driver ended during the run: killed, or out of memory."""


class ZooKeeperLost(ExtractionFailed):
    """The connection to ZooKeeper broke at a point where the run could not wait for it."""


class GroupBusy(ExtractionFailed):
    """Another live member is in the group, or owns one of the partitions."""


class ForeignCommit(ExtractionFailed):
    """Another client changed the offsets meanwhile. Nothing was published, and the staging folder was removed."""


@contextmanager
def reason_only() -> Iterator[None]:
    """In a Python worker of Spark, report our errors as one sentence without a traceback.

    A worker reads this variable, which spark.sql.execution.pyspark.udf.hideTraceback.enabled sets for all errors, when
    it reports the error, and then ends. No other process reads it.
    """
    try:
        yield
    except SourceError:
        os.environ[_HIDE_TRACEBACK] = "1"
        raise
