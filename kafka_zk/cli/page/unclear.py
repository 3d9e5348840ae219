"""Acts whose outcome is unknown: a request was sent, and no broker answered."""

import contextlib
from collections.abc import Iterator

from kafka_zk.clients.connection.errors import KafkaTimeoutError, ResponseLost
from kafka_zk.recorder.web.operations import Done, PerhapsDone

EXPECTED = "unknown, because it failed; it may be done, also in part"
"""The recorded effect of such an act."""


@contextlib.contextmanager
def perhaps(done: Done) -> Iterator[None]:
    """The block sends the request. ``done``: recorded if its outcome is unknown. Raises PerhapsDone in that case."""
    try:
        yield
    except (KafkaTimeoutError, ResponseLost) as error:
        raise PerhapsDone(
            f"{error}; the change may have been made all the same: look before you repeat it", done
        ) from error
