"""Where quotas meet requests: what is counted when a request comes, and how long its peer is muted after the answer.

An answer is never held back. It says how long the client should wait, and for that time the broker reads nothing from
the connection (KIP-219). Without quotas, the dispatcher and the connections run without any of this: ``Enforcement``
hooks in when the first quota appears, and out when the last one goes.

A Produce request counts when it comes, whatever becomes of it. A Fetch answer counts before it changes the client's
fetch session (``handlers/data/fetch.py``), a request's time as long as its handler has the reactor. What brokers ask
each other is exempt. Source: RequestHandlerHelper.scala, KafkaApis.scala@3.9.
"""

from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any

from kafka_zk.base.clock import Timers
from kafka_zk.base.rate import QuotaWindow, Rate
from kafka_zk.broker.quota.buckets import RateBucket, TokenBucket
from kafka_zk.broker.quota.client_quotas import ClientBuckets, ClientKey, ClientQuotas, Clients
from kafka_zk.broker.quota.mutation_quota import STRICT_SINCE, UNLIMITED, MutationQuota
from kafka_zk.broker.quota.quota_table import QuotaKey
from kafka_zk.network.connection_settings import ConnectionSettings, Dispatch, ResponseHook
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


LimitFetches = Callable[[Clients | None], None]


class Enforcement:
    """Applies quotas to the requests of all listeners. ``quotas`` is changed by others, who call ``changed`` then."""

    def __init__(self, quotas: ClientQuotas, clock: Timers) -> None:
        self.quotas = quotas
        self.exempt_time = Rate(QuotaWindow())
        """Percent of a thread that exempt requests use."""
        self._known: Clients = quotas.clients.young  # a look costs less than a call
        quotas.clients.young.find = self._find
        self._clock = clock
        self._settings: list[tuple[ConnectionSettings, Dispatch]] = []
        self._limit_fetches: LimitFetches = lambda clients: None
        self.on_change: Callable[[], None] = lambda: None
        """Called when there are other quotas than before."""

    def attach(self, settings: ConnectionSettings) -> None:
        """From now on for the connections of a listener, too."""
        self._settings.append((settings, settings.dispatch))
        self._apply(settings, settings.dispatch)

    def limit_fetches_by(self, limit: LimitFetches) -> None:
        """``limit`` tells the dispatcher what limits the clients, or None while none may fetch less than it wants."""
        self._limit_fetches = limit
        self.changed()

    def changed(self) -> None:
        """There are other quotas than before."""
        self._limit_fetches(self._known if self.quotas.table.has(QuotaKey.FETCH) else None)
        for settings, dispatch in self._settings:
            self._apply(settings, dispatch)
        self.on_change()

    def _apply(self, settings: ConnectionSettings, dispatch: Dispatch) -> None:
        table = self.quotas.table
        settings.on_response = self._hook()
        if table.has(QuotaKey.PRODUCE):
            dispatch = self._counting(dispatch)
        settings.dispatch = self._timing(dispatch) if table.has(QuotaKey.REQUEST) else dispatch

    def _find(self, key: ClientKey) -> ClientBuckets:
        principal, client_id = key
        assert not isinstance(client_id, int), "a long client id is looked for as it is"
        return self.quotas.of(principal, client_id, self.now_ms())

    def now_ms(self) -> float:
        """On the clock that is never set."""
        return self._clock.seconds() * 1000

    def forget_idle(self) -> None:
        """To be called now and then."""
        self.quotas.forget_idle(self.now_ms())

    # -- when a request comes -----------------------------------------------------------------------------------------

    def _counting(self, dispatch: Dispatch) -> Dispatch:
        """``dispatch``, which counts the bytes of Produce requests."""
        seconds, known = self._clock.seconds, self._known

        def counted(
            context: RequestContext, header: RequestHeader, body: memoryview
        ) -> Coroutine[Any, Any, Response]:
            if header.api_key != _PRODUCE:
                return dispatch(context, header, body)
            buckets = known[context.principal, header.client_id]
            bucket = buckets.produce
            if bucket is None:
                return dispatch(context, header, body)
            now_ms = seconds() * 1000
            mute_ms = bucket.add(len(body) + buckets.header_bytes, now_ms)
            if not mute_ms:
                return dispatch(context, header, body)
            bucket.throttles.add(mute_ms, now_ms)
            return _throttled(dispatch(context, header, body), mute_ms)

        return counted

    def _timing(self, dispatch: Dispatch) -> Dispatch:
        """``dispatch``, which counts how long the requests of a client with such a quota have the reactor."""

        seconds, known = self._clock.seconds, self._known

        async def timed(context: RequestContext, header: RequestHeader, body: memoryview) -> Response:
            bucket = known[context.principal, header.client_id].request
            handling = dispatch(context, header, body)
            del body  # or a handler that waits could not let go of it
            if bucket is None:
                return await handling
            began_s = seconds()
            try:
                awaited = handling.send(None)
            except StopIteration as end:
                parts = end.value
            except BaseException:  # it ends the connection, and counts all the same
                bucket.record((seconds() - began_s) * 100, seconds() * 1000)
                raise
            else:
                parts, began_s = await _go_on(handling, awaited, began_s, seconds)
            now_s = seconds()
            if parts.__class__ is not list or header.api_key in EXEMPT:
                return self._special_answer(header, parts, bucket, began_s, now_s)
            mute_ms = bucket.add((now_s - began_s) * 100, now_s * 1000)
            if not mute_ms:
                return parts
            bucket.throttles.add(mute_ms, now_s * 1000)
            return ThrottledAnswer(parts, mute_ms)

        return timed

    def _special_answer(
        self, header: RequestHeader, parts: Response, bucket: RateBucket, began_s: float, now_s: float
    ) -> Response:
        """An answer to a broker, to nobody, or to a client that is held back by another quota already."""
        percent, now_ms = (now_s - began_s) * 100, now_s * 1000
        if parts is None or header.api_key in EXEMPT or type(parts) is ExemptFetch:
            self.exempt_time.record(percent, now_ms)
            return parts
        mute_ms = bucket.add(percent, now_ms)
        if mute_ms <= (parts.mute_ms if isinstance(parts, ThrottledAnswer) else 0):
            return parts
        bucket.throttles.add(mute_ms, now_ms)
        return ThrottledAnswer(parts, mute_ms)

    def mutation_quota(self, context: RequestContext, header: RequestHeader) -> MutationQuota:
        """How many partitions a request may create or delete."""
        if not self.quotas.table.has(QuotaKey.MUTATION):
            return UNLIMITED
        bucket = self.quotas.of(context.principal, header.client_id, self.now_ms()).mutation
        strict_since = _STRICT_SINCE.get(header.api_key)
        is_strict = strict_since is not None and header.api_version >= strict_since
        return MutationQuota(bucket, self.now_ms, is_strict=is_strict)

    # -- when its answer leaves ---------------------------------------------------------------------------------------

    def _hook(self) -> ResponseHook | None:
        table = self.quotas.table
        if table.is_empty:
            return None
        return self.mute_ms if table.has(QuotaKey.MUTATION) else self._mute_ms_if_throttled

    def _mute_ms_if_throttled(self, context: RequestContext, header: RequestHeader, parts: Response) -> int:
        """As ``mute_ms``, while there are no quotas of mutations."""
        return 0 if parts.__class__ is list else self.mute_ms(context, header, parts)

    def mute_ms(self, context: RequestContext, header: RequestHeader, parts: Response) -> int:
        """A ``ResponseHook``: how long the peer is muted; the answer says so."""
        api_key = header.api_key
        if parts is None:
            if api_key != _PRODUCE:
                return 0
            now_ms = self.now_ms()
            produce = self.quotas.of(context.principal, header.client_id, now_ms).produce
            return 0 if produce is None else produce.hold_back_ms(now_ms)
        mute_ms = parts.mute_ms if isinstance(parts, ThrottledAnswer) else 0
        if api_key in _STRICT_SINCE:
            mute_ms = max(mute_ms, self._mutation_ms(context, header, parts))
        if mute_ms:
            set_throttle_time(api_key, header.api_version, header.correlation_id, parts, mute_ms)
        return mute_ms

    def _mutation_ms(self, context: RequestContext, header: RequestHeader, parts: list[Part]) -> int:
        now_ms = self.now_ms()
        mutation = self.quotas.of(context.principal, header.client_id, now_ms).mutation
        if mutation is None:
            return 0
        mute_ms = _mutation_wait_ms(header, parts, mutation, now_ms)
        if mute_ms:
            mutation.throttles.add(mute_ms, now_ms)
        return mute_ms


def _mutation_wait_ms(header: RequestHeader, parts: list[Part], bucket: TokenBucket, now_ms: float) -> int:
    """A strict request that was refused says it in its answer; what else makes a debt waits until it is paid."""
    if not bucket.bound:
        return bucket.window.sample_ms
    if header.api_version >= _STRICT_SINCE[header.api_key]:
        return throttle_time_at_start(header.api_key, header.api_version, parts)
    return bucket.debt_ms(now_ms)


@coroutine
def _go_on(
    handling: Coroutine[Any, Any, Response], awaited: Any, began_s: float, seconds: Callable[[], float]
) -> Generator[Any, Any, tuple[Response, float]]:
    """The steps of a request after its first one, which ended with a wait. Returns what it returned, and when it would
    have begun if it had not waited."""
    while True:
        sent = None
        failure: BaseException | None = None
        paused_s = seconds()
        try:
            sent = yield awaited
        except GeneratorExit:
            handling.close()
            raise
        except BaseException as error:
            failure = error
        began_s += seconds() - paused_s
        try:
            awaited = handling.send(sent) if failure is None else handling.throw(failure)
        except StopIteration as end:
            return end.value, began_s
        finally:
            del failure  # its traceback refers to this frame
