"""What the Spark jobs raise on purpose; each message is one sentence for the person who runs the job."""

from collections.abc import Iterator
from contextlib import contextmanager


class SourceError(Exception):
    """Base of what the data source and the extraction refuse."""


class OptionError(SourceError, ValueError):
    """An option is unknown, missing or contradicts another one."""


class DataLoss(SourceError):
    """Records of the planned range are not there any more: retention, truncation, a topic that was made anew."""


class FetchFailed(SourceError):
    """Brokers could not be reached or did not answer as needed within the patience that the options give."""


@contextmanager
def reason_first() -> Iterator[None]:
    """Within a Python worker: Spark shows a worker's error as its traceback, with the reason in the last line. An error
    of ours gets itself as its cause, and a traceback begins with the cause."""
    try:
        yield
    except SourceError as error:
        raise error from type(error)(str(error))
