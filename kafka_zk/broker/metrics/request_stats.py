"""Counts requests and bytes as plain numbers, because counting must cost almost nothing.

Without metrics, the dispatcher is not wrapped. Other metrics are read on request, see ``collector``. Tests:
tests/kafka_zk/broker/metrics/test_metrics.py.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from kafka_zk.base.clock import monotonic_s
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.request import RequestContext, RequestHeader

Dispatch = Callable[[RequestContext, RequestHeader, memoryview], Coroutine[Any, Any, list[Part] | None]]

_PRODUCE = int(ApiKey.PRODUCE)
_FETCH = int(ApiKey.FETCH)


class RequestStats:
    """Counts of requests since the broker's start.

    Attributes:
        requests: (API key, version) -> [count, sum in s until the response was ready].
        failed_count: (API key, version) -> number of requests that closed their connection.
        produced_bytes, fetched_bytes: body sizes of Produce requests and Fetch responses.
    """

    def __init__(self) -> None:
        self.requests: dict[tuple[int, int], list[float]] = {}
        self.failed_count: dict[tuple[int, int], int] = {}
        self.produced_bytes = 0
        self.fetched_bytes = 0

    def measure(self, dispatch: Dispatch) -> Dispatch:
        requests = self.requests

        async def measured(context: RequestContext, header: RequestHeader, body: memoryview) -> list[Part] | None:
            start_s = monotonic_s()
            key = header[:2]
            size_bytes = len(body)
            handling = dispatch(context, header, body)
            del body  # otherwise this reference keeps the body in memory while the handler waits
            try:
                parts = await handling
            except BaseException:
                self.failed_count[key] = self.failed_count.get(key, 0) + 1
                raise
            row = requests.get(key)
            if row is None:
                row = requests[key] = [0, 0.0]
            row[0] += 1
            row[1] += monotonic_s() - start_s
            if key[0] == _PRODUCE:
                self.produced_bytes += size_bytes
            elif key[0] == _FETCH and parts is not None:
                for part in parts:
                    self.fetched_bytes += len(part)
            return parts

        return measured
