"""Where work that blocks in C is done: in threads for a broker, on the spot for tests and tools."""

from collections.abc import Callable

Done = Callable[[OSError | None], None]
RunBlocking = Callable[[Callable[[], None], Done], None]
"""(work, done): ``work`` may run anywhere; ``done(error)`` must then run on the owner's thread."""


def run_inline(work: Callable[[], None], done: Done) -> None:
    """Do the work before returning."""
    try:
        work()
    except OSError as error:
        done(error)
    else:
        done(None)
