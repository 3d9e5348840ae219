"""Where quotas meet requests: what is counted when a request comes, and how long its peer is muted after the answer.

An answer is never held back. It says how long the client should wait, and as long the broker reads nothing more from
the connection (KIP-219). Without quotas, neither the dispatcher nor the connections know of any: they are told when
the first quota appears and when the last one goes.

A Produce request counts when it comes, whatever becomes of it. A Fetch answer counts before it changes the client's
fetch session (``FetchQuota``), a request's time as long as its handler has the reactor. What brokers ask each other is
exempt. Source: RequestHandlerHelper.scala, KafkaApis.scala@3.9.
"""

from collections.abc import Callable, Coroutine, Generator
from typing import Any

from kafka_zk.base.clock import Timers
from kafka_zk.base.rate import QuotaWindow, Rate
from kafka_zk.broker.quota.buckets import RateBucket, TokenBucket
from kafka_zk.broker.quota.client_quotas import ClientQuotas
from kafka_zk.broker.quota.mutation_quota import STRICT_SINCE, MutationQuota
from kafka_zk.broker.quota.quota_table import QuotaKey
from kafka_zk.network.connection_settings import ANONYMOUS, ConnectionSettings, Dispatch
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.protocol.throttle_time import set_throttle_time, throttle_time_at_start

Response = list[Part] | None

EXEMPT = frozenset(
    map(
        int,
        (
            ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN,
            ApiKey.ALTER_PARTITION, ApiKey.ALLOCATE_PRODUCER_IDS, ApiKey.WRITE_TXN_MARKERS, ApiKey.SASL_HANDSHAKE,
            ApiKey.SASL_AUTHENTICATE,
        ),
    )
)  # fmt: skip
"""Requests of brokers, and logins."""

_PRODUCE, _FETCH = int(ApiKey.PRODUCE), int(ApiKey.FETCH)
_STRICT_SINCE = {int(key): version for key, version in STRICT_SINCE.items()}


class ExemptFetch(list[Part]):
    """An answer to a follower: its time is nobody's."""


class ThrottledFetch(list[Part]):
    """An answer to Fetch whose client is muted for ``mute_ms`` after it."""

    mute_ms: int


class FetchQuota:
    """What a client may fetch. Of one request."""

    def __init__(self, bucket: RateBucket, now_ms: Callable[[], int]) -> None:
        self._bucket = bucket
        self._now_ms = now_ms

    @property
    def most_bytes(self) -> int:
        """More would be refused at any time, so no more is asked for; a single batch may be larger."""
        return min(int(self._bucket.most_in_window), 2**31 - 1) if self._bucket.bound else 2**31 - 1

    def admit(self, size_bytes: int) -> int:
        """0 if the answer may leave, which counts it; else how long to wait: the client gets an empty one."""
        return self._bucket.admit(size_bytes, self._now_ms())

    def answered(self, parts: list[Part]) -> list[Part]:
        """The answer with what was let through; it may be more than the client has left."""
        mute_ms = self._bucket.hold_back_ms(self._now_ms())
        return self.throttled(parts, mute_ms) if mute_ms else parts

    def throttled(self, parts: list[Part], mute_ms: int) -> list[Part]:
        """The answer, after which the client is muted."""
        throttled = ThrottledFetch(parts)
        throttled.mute_ms = mute_ms
        self._bucket.throttles.add(mute_ms, self._now_ms())
        return throttled


class Enforcement:
    """Applies quotas to the requests of all listeners. ``quotas`` is changed by others, who call ``changed`` then."""

    def __init__(self, quotas: ClientQuotas, clock: Timers) -> None:
        self.quotas = quotas
        self.exempt_time = Rate(QuotaWindow())
        """Percent of a thread that exempt requests use."""
        self._clock = clock
        self._settings: list[tuple[ConnectionSettings, Dispatch]] = []
        self._limit_fetches: Callable[[Callable[[RequestContext, RequestHeader], FetchQuota | None] | None], None]
        self._limit_fetches = lambda find: None

    def attach(self, settings: ConnectionSettings) -> None:
        """From now on for the connections of a listener, too."""
        self._settings.append((settings, settings.dispatch))
        self._apply(settings, settings.dispatch)

    def limit_fetches_by(
        self, limit: Callable[[Callable[[RequestContext, RequestHeader], FetchQuota | None] | None], None]
    ) -> None:
        """``limit`` tells the dispatcher how to find a client's ``FetchQuota``, or None that there are none."""
        self._limit_fetches = limit
        self.changed()

    def changed(self) -> None:
        """There are other quotas than before."""
        self._limit_fetches(self._fetch_quota if self.quotas.table.has(QuotaKey.FETCH) else None)
        for settings, dispatch in self._settings:
            self._apply(settings, dispatch)

    def _apply(self, settings: ConnectionSettings, dispatch: Dispatch) -> None:
        table = self.quotas.table
        settings.on_response = None if table.is_empty else self.mute_ms
        counts = table.has(QuotaKey.PRODUCE) or table.has(QuotaKey.REQUEST)
        settings.dispatch = self._counting(dispatch) if counts else dispatch

    def now_ms(self) -> int:
        """On the clock that is never set."""
        return int(self._clock.seconds() * 1000)

    # -- when a request comes -----------------------------------------------------------------------------------------

    def _counting(self, dispatch: Dispatch) -> Dispatch:
        """``dispatch``, which counts the bytes of Produce requests and the time of those whose client has a quota."""
        seconds, find = self._clock.seconds, self.quotas.of

        def counted(
            context: RequestContext, header: RequestHeader, body: memoryview
        ) -> Coroutine[Any, Any, Response]:
            now_ms = int(seconds() * 1000)
            buckets = find(context.principal, header.client_id, now_ms)
            if header.api_key == _PRODUCE and buckets.produce is not None:
                buckets.produce.record(len(body) + buckets.header_bytes, now_ms)
            coroutine = dispatch(context, header, body)
            return coroutine if buckets.request is None else _TimedRequest(coroutine, header, buckets.request, self)

        return counted

    def _fetch_quota(self, context: RequestContext, header: RequestHeader) -> FetchQuota | None:
        bucket = self.quotas.of(context.principal, header.client_id, self.now_ms()).fetch
        return None if bucket is None else FetchQuota(bucket, self.now_ms)

    def count_time(self, header: RequestHeader, bucket: RateBucket, spent_s: float, is_exempt: bool) -> None:
        """A request is done, which had the reactor for so long."""
        is_exempt = is_exempt or header.api_key in EXEMPT
        (self.exempt_time if is_exempt else bucket).record(spent_s * 100, self.now_ms())

    def mutation_quota(self, context: RequestContext, header: RequestHeader) -> MutationQuota | None:
        """What a request may create or delete; None for any number."""
        bucket = self.quotas.of(context.principal, header.client_id, self.now_ms()).mutation
        if bucket is None:
            return None
        strict_since = _STRICT_SINCE.get(header.api_key)
        is_strict = strict_since is not None and header.api_version >= strict_since
        return MutationQuota(bucket, self.now_ms, is_strict=is_strict)

    # -- when its answer leaves ---------------------------------------------------------------------------------------

    def mute_ms(self, context: RequestContext, header: RequestHeader, parts: Response) -> int:
        """A ``ResponseHook``: how long the peer is muted; the answer says so."""
        api_key = header.api_key
        now_ms = int(self._clock.seconds() * 1000)
        produce, _, request, mutation, _ = self.quotas.of(context.principal, header.client_id, now_ms)
        mute_ms = 0
        limited: RateBucket | TokenBucket | None = None
        if api_key == _PRODUCE:
            if produce is not None:
                mute_ms, limited = produce.hold_back_ms(now_ms), produce
        elif type(parts) is ThrottledFetch:
            mute_ms = parts.mute_ms
        elif mutation is not None and parts is not None and api_key in _STRICT_SINCE:
            mute_ms, limited = _mutation_ms(header, parts, mutation, now_ms), mutation
        if request is not None and not _is_exempt(context, api_key, parts):
            request_ms = request.hold_back_ms(now_ms)
            if request_ms >= mute_ms:
                mute_ms, limited = request_ms, request
        if mute_ms > 0:
            if limited is not None:
                limited.throttles.add(mute_ms, now_ms)
            if parts is not None:
                set_throttle_time(api_key, header.api_version, header.correlation_id, parts, mute_ms)
        return mute_ms


def _is_exempt(context: RequestContext, api_key: int, parts: Response) -> bool:
    """Whether the answer is none, or one to a broker, or to a peer that has not said yet who it is."""
    is_handshake = context.principal == ANONYMOUS and context.security_protocol.startswith("SASL")
    return parts is None or api_key in EXEMPT or type(parts) is ExemptFetch or is_handshake


def _mutation_ms(header: RequestHeader, parts: list[Part], bucket: TokenBucket, now_ms: int) -> int:
    """A strict request that was refused says it in its answer; what else makes a debt waits until it is paid."""
    if not bucket.bound:
        return bucket.window.sample_ms
    if header.api_version >= _STRICT_SINCE[header.api_key]:
        return throttle_time_at_start(header.api_key, header.api_version, parts)
    return bucket.debt_ms(now_ms)


class _TimedRequest(Coroutine[Any, Any, Response]):
    """A request's coroutine, whose time on the reactor is counted when it is done."""

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, Response],
        header: RequestHeader,
        bucket: RateBucket,
        enforcement: Enforcement,
    ) -> None:
        self._coroutine = coroutine
        self._header = header
        self._bucket = bucket
        self._enforcement = enforcement
        self._spent_s = 0.0

    def send(self, value: Any) -> Any:
        return self._step(self._coroutine.send, value)

    def throw(self, typ: Any, val: Any = None, tb: Any = None) -> Any:
        return self._step(self._coroutine.throw, typ)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Response]:
        return self._coroutine.__await__()

    def _step(self, step: Callable[[Any], Any], value: Any) -> Any:
        seconds = self._enforcement._clock.seconds
        began_s = seconds()
        try:
            awaited = step(value)
        except StopIteration as end:
            is_exempt = end.value is None or type(end.value) is ExemptFetch
            self._done(self._spent_s + seconds() - began_s, is_exempt=is_exempt)
            raise
        except BaseException:
            self._done(self._spent_s + seconds() - began_s, is_exempt=False)
            raise
        self._spent_s += seconds() - began_s
        return awaited

    def _done(self, spent_s: float, *, is_exempt: bool) -> None:
        self._enforcement.count_time(self._header, self._bucket, spent_s, is_exempt)
