"""What the Spark jobs raise on purpose; each message is one sentence for the person who runs the job."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

_HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"


class SourceError(Exception):
    """Base of what the data source and the extraction refuse."""


class OptionError(SourceError, ValueError):
    """An option is unknown, missing or contradicts another one."""


class DataLoss(SourceError):
    """Records of the planned range are not there any more: retention, truncation, a topic that was made anew."""


class FetchFailed(SourceError):
    """Brokers could not be reached or did not answer as needed within the patience that the options give."""


class AuthenticationError(SourceError):
    """A broker does not accept us, or we do not accept it; trying again does not help."""


class WriteFailed(SourceError):
    """Records could not be written to a topic, or transactions could not be ended."""


class ExtractionFailed(SourceError):
    """The extraction could not be done; what is left of it is finished or dropped by the next run."""


class WronglyAsked(ExtractionFailed):
    """Something that is asked for cannot be had: a schema, a column, a format, a target; nothing was done."""


class Undecodable(ExtractionFailed):
    """Values cannot be decoded, more of them than was allowed: nothing was published and the offsets have not moved."""


class JavaDied(ExtractionFailed):
    """The Java process of Spark's driver ended in the middle: killed, or out of memory."""


class ZooKeeperLost(ExtractionFailed):
    """The connection to ZooKeeper broke at a moment when the run could not wait for it to come back."""


class GroupBusy(ExtractionFailed):
    """Another live member is in the group, or owns one of the partitions."""


class ForeignCommit(ExtractionFailed):
    """Another client changed the offsets meanwhile. Nothing was published, and the staging folder is gone."""


@contextmanager
def reason_only() -> Iterator[None]:
    """In a Python worker of Spark: an error of ours is shown as its sentence, without the traceback before it.

    A worker reads this variable, which spark.sql.execution.pyspark.udf.hideTraceback.enabled sets for all errors, when
    it reports the error, and ends then. Elsewhere nothing reads it.
    """
    try:
        yield
    except SourceError:
        os.environ[_HIDE_TRACEBACK] = "1"
        raise
