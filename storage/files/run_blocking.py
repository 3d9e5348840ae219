"""Runs blocking work: in threads for a broker, inline for tests and tools."""

from collections.abc import Callable

Done = Callable[[OSError | None], None]
RunBlocking = Callable[[Callable[[], None], Done], None]
"""(work, done): run ``work`` on any thread, then call ``done(error)`` on the owner's thread."""


def run_inline(work: Callable[[], None], done: Done) -> None:
    """Run the work before returning."""
    try:
        work()
    except OSError as error:
        done(error)
    else:
        done(None)
