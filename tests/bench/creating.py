"""Creates many topics during another measurement."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.bench.workloads import BenchFailed
from tests.peers.targets import Target

TOPICS = 2_000
#: Number of topics per request.
_BATCH = 100
_DELAY_S = 3.0
_JOIN_TIMEOUT_S = 300


@contextmanager
def topics_created(target: Target, count: int = TOPICS) -> Iterator[None]:
    """Create `count` topics, beginning a few seconds after the block starts, when a client's JVM has started.

    Raises: BenchFailed at the end of the block if they were not created.
    """
    failures: list[BaseException] = []
    leaving = threading.Event()

    def create() -> None:
        try:
            leaving.wait(_DELAY_S)
            for first in range(0, count, _BATCH):
                target.create_topics([f"beside-{first + number}" for number in range(min(_BATCH, count - first))])
        except BaseException as failure:
            failures.append(failure)

    creating = threading.Thread(target=create, name="creates topics", daemon=True)
    creating.start()
    try:
        yield
    finally:
        leaving.set()
        creating.join(_JOIN_TIMEOUT_S)
    if failures or creating.is_alive():
        raise BenchFailed(f"{count} topics on {target.name}: {failures or f'not within {_JOIN_TIMEOUT_S} s'}")
