"""What one request may create or delete: partitions, counted in the tokens of its client (KIP-599).

Newer versions are strict: while there is a debt, nothing more is done (THROTTLING_QUOTA_EXCEEDED), and the answer says
when to ask again. For older ones everything is done, and the connection is held back until the debt is paid.

Source: ControllerMutationQuotaManager.scala@3.9.
"""

from collections.abc import Callable

from kafka_zk.broker.quota.buckets import TokenBucket
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode

STRICT_SINCE = {ApiKey.CREATE_TOPICS: 6, ApiKey.DELETE_TOPICS: 5, ApiKey.CREATE_PARTITIONS: 3}
"""The version from which each API is strict. Creation by asking for metadata never is."""


class MutationQuota:
    """Of one request. ``bucket``: None if nothing limits its client."""

    def __init__(self, bucket: TokenBucket | None, now_ms: Callable[[], float], *, is_strict: bool) -> None:
        self._bucket = bucket
        self._now_ms = now_ms
        self._is_strict = is_strict
        self._is_refused = False

    def take(self, count: int) -> None:
        """``count`` partitions are about to be created or deleted. Raises: ApiError if they must not."""
        if self._bucket is None:
            return
        now_ms = self._now_ms()
        if self._is_strict and self._bucket.debt_ms(now_ms) > 0:
            self._is_refused = True
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")
        self._bucket.take(count, now_ms)

    @property
    def throttle_ms(self) -> int:
        """For the answer: how long to wait before asking again, if something was refused."""
        return self._bucket.debt_ms(self._now_ms()) if self._bucket is not None and self._is_refused else 0


UNLIMITED = MutationQuota(None, lambda: 0, is_strict=False)
