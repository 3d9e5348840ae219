"""Where quotas meet requests: what is counted when a request comes, and how long its peer is muted after the answer.

An answer is never held back. It says how long the client should wait, and for that time the broker reads nothing from
the connection (KIP-219). Without quotas, the dispatcher and the connections run without any of this: ``Enforcement``
hooks in when the first quota appears, and out when the last one goes.

A Produce request counts when it comes, whatever becomes of it. A Fetch answer counts before it changes the client's
fetch session (``handlers/data/fetch.py``), a request's time as long as its handler has the reactor. What brokers ask
each other is exempt. Source: RequestHandlerHelper.scala, KafkaApis.scala@3.9.
"""

from collections.abc import Callable, Coroutine, Generator
from typing import Any

from kafka_zk.base.clock import Timers
from kafka_zk.base.rate import QuotaWindow, Rate
from kafka_zk.broker.quota.buckets import RateBucket, TokenBucket
from kafka_zk.broker.quota.client_quotas import ClientQuotas
from kafka_zk.broker.quota.mutation_quota import STRICT_SINCE, UNLIMITED, MutationQuota
from kafka_zk.broker.quota.quota_table import QuotaKey
from kafka_zk.network.connection_settings import ANONYMOUS, ConnectionSettings, Dispatch, ResponseHook
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.request import NO_REQUEST, RequestContext, RequestHeader
from kafka_zk.protocol.throttle_time import set_throttle_time, throttle_time_at_start

Response = list[Part] | None

EXEMPT = frozenset(
    map(
        int,
        (
            ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN,
            ApiKey.ALTER_PARTITION, ApiKey.ALLOCATE_PRODUCER_IDS, ApiKey.WRITE_TXN_MARKERS, ApiKey.SASL_HANDSHAKE,
            ApiKey.SASL_AUTHENTICATE, NO_REQUEST,
        ),
    )
)  # fmt: skip
"""Requests of brokers, and logins."""

_PRODUCE, _FETCH = int(ApiKey.PRODUCE), int(ApiKey.FETCH)
_STRICT_SINCE = {int(key): version for key, version in STRICT_SINCE.items()}


class ExemptFetch(list[Part]):
    """An answer to a follower: its time counts towards no quota."""


class ThrottledAnswer(list[Part]):
    """An answer after which the peer is muted for ``mute_ms``."""

    def __init__(self, parts: list[Part], mute_ms: int) -> None:
        super().__init__(parts)
        self.mute_ms = mute_ms


async def _throttled(answering: Coroutine[Any, Any, Response], mute_ms: int) -> Response:
    parts = await answering
    return None if parts is None else ThrottledAnswer(parts, mute_ms)


FindBucket = Callable[[RequestContext, RequestHeader], RateBucket | None]
LimitFetches = Callable[[FindBucket | None], None]


class Enforcement:
    """Applies quotas to the requests of all listeners. ``quotas`` is changed by others, who call ``changed`` then."""

    def __init__(self, quotas: ClientQuotas, clock: Timers) -> None:
        self.quotas = quotas
        self.exempt_time = Rate(QuotaWindow())
        """Percent of a thread that exempt requests use."""
        self.seconds = clock.seconds
        self._young = quotas.clients.young
        self._clock = clock
        self._settings: list[tuple[ConnectionSettings, Dispatch]] = []
        self._limit_fetches: LimitFetches = lambda find: None
        self.on_change: Callable[[], None] = lambda: None
        """Called when there are other quotas than before."""

    def attach(self, settings: ConnectionSettings) -> None:
        """From now on for the connections of a listener, too."""
        self._settings.append((settings, settings.dispatch))
        self._apply(settings, settings.dispatch)

    def limit_fetches_by(self, limit: LimitFetches) -> None:
        """``limit`` tells the dispatcher how to find what a client may fetch, or None while no client is limited."""
        self._limit_fetches = limit
        self.changed()

    def changed(self) -> None:
        """There are other quotas than before."""
        self._limit_fetches(self._fetch_bucket if self.quotas.table.has(QuotaKey.FETCH) else None)
        for settings, dispatch in self._settings:
            self._apply(settings, dispatch)
        self.on_change()

    def _apply(self, settings: ConnectionSettings, dispatch: Dispatch) -> None:
        table = self.quotas.table
        sees_all = table.has(QuotaKey.REQUEST) or table.has(QuotaKey.MUTATION)
        settings.on_response = None if table.is_empty else self._hook(sees_all=sees_all)
        if table.has(QuotaKey.PRODUCE):
            dispatch = self._counting(dispatch)
        settings.dispatch = self._timing(dispatch) if table.has(QuotaKey.REQUEST) else dispatch

    def now_ms(self) -> float:
        """On the clock that is never set."""
        return self._clock.seconds() * 1000

    def forget_idle(self) -> None:
        """To be called now and then."""
        self.quotas.forget_idle(self.now_ms())

    # -- when a request comes -----------------------------------------------------------------------------------------

    def _counting(self, dispatch: Dispatch) -> Dispatch:
        """``dispatch``, which counts the bytes of Produce requests."""
        seconds, quotas = self._clock.seconds, self.quotas
        find, get = quotas.of, self._young.get

        def counted(
            context: RequestContext, header: RequestHeader, body: memoryview
        ) -> Coroutine[Any, Any, Response]:
            if header.api_key != _PRODUCE:
                return dispatch(context, header, body)
            now_ms = seconds() * 1000
            buckets = get((context.principal, header.client_id))
            if buckets is None:
                buckets = find(context.principal, header.client_id, now_ms)
            bucket = buckets.produce
            if bucket is None:
                return dispatch(context, header, body)
            mute_ms = bucket.add(len(body) + buckets.header_bytes, now_ms)
            if not mute_ms:
                return dispatch(context, header, body)
            bucket.throttles.add(mute_ms, now_ms)
            return _throttled(dispatch(context, header, body), mute_ms)

        return counted

    def _timing(self, dispatch: Dispatch) -> Dispatch:
        """``dispatch``, which counts how long the requests of a client with such a quota have the reactor."""

        def timed(context: RequestContext, header: RequestHeader, body: memoryview) -> Coroutine[Any, Any, Response]:
            bucket = self.quotas.of(context.principal, header.client_id, self.now_ms()).request
            coroutine = dispatch(context, header, body)
            if bucket is None:
                return coroutine
            return _TimedRequest(coroutine, self.exempt_time if header.api_key in EXEMPT else bucket, self)

        return timed

    def _fetch_bucket(self, context: RequestContext, header: RequestHeader) -> RateBucket | None:
        buckets = self._young.get((context.principal, header.client_id))
        if buckets is None:
            buckets = self.quotas.of(context.principal, header.client_id, self.now_ms())
        return buckets.fetch

    def mutation_quota(self, context: RequestContext, header: RequestHeader) -> MutationQuota:
        """How many partitions a request may create or delete."""
        if not self.quotas.table.has(QuotaKey.MUTATION):
            return UNLIMITED
        bucket = self.quotas.of(context.principal, header.client_id, self.now_ms()).mutation
        strict_since = _STRICT_SINCE.get(header.api_key)
        is_strict = strict_since is not None and header.api_version >= strict_since
        return MutationQuota(bucket, self.now_ms, is_strict=is_strict)

    # -- when its answer leaves ---------------------------------------------------------------------------------------

    def _hook(self, *, sees_all: bool) -> ResponseHook:
        """``sees_all``: whether any answer may be one to a client that is held back."""
        if sees_all:
            return self.mute_ms

        def of_throttled(context: RequestContext, header: RequestHeader, parts: Response) -> int:
            return 0 if parts.__class__ is list else self.mute_ms(context, header, parts)

        return of_throttled

    def mute_ms(self, context: RequestContext, header: RequestHeader, parts: Response) -> int:
        """A ``ResponseHook``: how long the peer is muted; the answer says so."""
        api_key = header.api_key
        now_ms = self.now_ms()
        produce, _, request, mutation, _ = self.quotas.of(context.principal, header.client_id, now_ms)
        mute_ms = 0
        if parts is None:
            mute_ms = produce.hold_back_ms(now_ms) if api_key == _PRODUCE and produce is not None else 0
        elif isinstance(parts, ThrottledAnswer):
            mute_ms = parts.mute_ms
        elif mutation is not None and api_key in _STRICT_SINCE:
            mute_ms = _mutation_ms(header, parts, mutation, now_ms)
            if mute_ms:
                mutation.throttles.add(mute_ms, now_ms)
        if request is not None and not _is_exempt(context, api_key, parts):
            request_ms = request.hold_back_ms(now_ms)
            if request_ms > mute_ms:
                mute_ms = request_ms
                request.throttles.add(mute_ms, now_ms)
        if mute_ms and parts is not None:
            set_throttle_time(api_key, header.api_version, header.correlation_id, parts, mute_ms)
        return mute_ms


def _is_exempt(context: RequestContext, api_key: int, parts: Response) -> bool:
    """Whether the answer is none, or one to a broker, or to a peer that has not said yet who it is."""
    is_handshake = context.principal == ANONYMOUS and context.security_protocol.startswith("SASL")
    return parts is None or api_key in EXEMPT or type(parts) is ExemptFetch or is_handshake


def _mutation_ms(header: RequestHeader, parts: list[Part], bucket: TokenBucket, now_ms: float) -> int:
    """A strict request that was refused says it in its answer; what else makes a debt waits until it is paid."""
    if not bucket.bound:
        return bucket.window.sample_ms
    if header.api_version >= _STRICT_SINCE[header.api_key]:
        return throttle_time_at_start(header.api_key, header.api_version, parts)
    return bucket.debt_ms(now_ms)


class _TimedRequest(Coroutine[Any, Any, Response]):
    """A request's coroutine, whose time on the reactor is counted when it is done: percent of a thread, in a second."""

    __slots__ = ("_coroutine", "_enforcement", "_rate", "_seconds", "_spent_s")

    def __init__(self, coroutine: Coroutine[Any, Any, Response], rate: Rate, enforcement: Enforcement) -> None:
        self._coroutine = coroutine
        self._rate = rate
        self._enforcement = enforcement
        self._seconds = enforcement.seconds
        self._spent_s = 0.0

    def send(self, value: Any) -> Any:
        began_s = self._seconds()
        try:
            awaited = self._coroutine.send(value)
        except BaseException as end:
            self._done(began_s, end)
            raise
        self._spent_s += self._seconds() - began_s
        return awaited

    def throw(self, typ: Any, val: Any = None, tb: Any = None) -> Any:
        began_s = self._seconds()
        try:
            awaited = self._coroutine.throw(typ)
        except BaseException as end:
            self._done(began_s, end)
            raise
        self._spent_s += self._seconds() - began_s
        return awaited

    def _done(self, began_s: float, end: BaseException) -> None:
        now_s = self._seconds()
        parts = end.value if isinstance(end, StopIteration) else end
        rate = self._enforcement.exempt_time if parts is None or type(parts) is ExemptFetch else self._rate
        rate.record((self._spent_s + now_s - began_s) * 100, now_s * 1000)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Response]:
        return self._coroutine.__await__()
