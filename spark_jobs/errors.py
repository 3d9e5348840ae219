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


class WriteFailed(SourceError):
    """Records could not be written to a topic, or transactions could not be ended."""


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
