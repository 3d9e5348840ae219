"""Limits how many partitions a client's requests create or delete, with a token bucket per client (KIP-599).

Newer request versions are strict: while the bucket is in debt, they are rejected (THROTTLING_QUOTA_EXCEEDED), and the
response says how long to wait. Older versions are executed, and the connection is muted until the debt is paid.

Source: ControllerMutationQuotaManager.scala@3.9.
"""

from collections.abc import Callable

from kafka_zk.broker.quota.buckets import TokenBucket
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode

STRICT_SINCE = {ApiKey.CREATE_TOPICS: 6, ApiKey.DELETE_TOPICS: 5, ApiKey.CREATE_PARTITIONS: 3}
"""First strict versions; automatic creation by Metadata is never strict."""


class MutationQuota:
    """The quota of one request. ``bucket``: None if the client has no quota."""

    def __init__(self, bucket: TokenBucket | None, now_ms: Callable[[], float], *, is_strict: bool) -> None:
        self._bucket = bucket
        self._now_ms = now_ms
        self._is_strict = is_strict
        self._is_refused = False

    def take(self, count: int) -> None:
        """Take tokens for partitions. Raises ApiError if they must not be created or deleted."""
        if self._bucket is None:
            return
        now_ms = self._now_ms()
        if self._is_strict and self._bucket.debt_ms(now_ms) > 0:
            self._is_refused = True
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")
        self._bucket.take(count, now_ms)

    @property
    def throttle_ms(self) -> int:
        """How many ms to wait before a retry, for the response; 0 unless a partition was rejected."""
        return self._bucket.debt_ms(self._now_ms()) if self._bucket is not None and self._is_refused else 0


UNLIMITED = MutationQuota(None, lambda: 0, is_strict=False)
