"""Counts the work of remote storage since the broker's start, and the work that is waiting, for
``broker.metrics.remote_storage``.

Source: BrokerTopicStats.java, RemoteStorageMetrics.java@3.9.
"""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar

from kafka_zk.base.clock import monotonic_s

T = TypeVar("T")


@dataclass(slots=True)
class RequestRates:
    """Requests of one kind. ``size_bytes``: total of the successful requests. ``elapsed_s``: total of all completed
    requests."""

    requests: int = 0
    errors: int = 0
    size_bytes: int = 0
    elapsed_s: float = 0.0

    async def counted(self, request: Awaitable[T]) -> T:
        """Count a request and return its result. Raises what the request raises."""
        self.requests += 1
        start_s = monotonic_s()
        try:
            return await request
        except Exception:
            self.errors += 1
            raise
        finally:
            self.elapsed_s += monotonic_s() - start_s


@dataclass(slots=True)
class RemoteLogStats:
    """Values of a partition that this broker leads, as of the partition's last round. The copy lag counts closed
    segments that are not copied yet. The delete lag counts remote segments that are due for deletion but still
    exist."""

    copy_lag_bytes: int = 0
    copy_lag_segments: int = 0
    delete_lag_bytes: int = 0
    delete_lag_segments: int = 0
    metadata_count: int = 0
    size_bytes: int = 0
