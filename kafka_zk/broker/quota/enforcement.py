"""Applies quotas: counts usage, and mutes peers after responses.

Responses are not delayed. They say how long the client should wait, and the broker does not read the connection for
that time (KIP-219). Handlers are wrapped only while there are quotas.

A Produce request is counted on arrival, whatever its result. A Fetch response is counted before it changes the fetch
session (``handlers/data/fetch.py``). Request time is the time for which a handler occupies the reactor. Requests
between brokers are exempt. Source: RequestHandlerHelper.scala, KafkaApis.scala@3.9.
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
from kafka_zk.network.connection_settings import ConnectionSettings, Dispatch
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.protocol.throttle_time import set_throttle_time, throttle_time_at_start

Response = list[Part] | None

EXEMPT = (
    ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.ALTER_PARTITION, ApiKey.WRITE_TXN_MARKERS,
)  # fmt: skip
"""Brokers' requests, with responses of type ``ExemptAnswer``. As in Kafka, AllocateProducerIds counts. Login requests
are not handled here."""

_PRODUCE, _FETCH = int(ApiKey.PRODUCE), int(ApiKey.FETCH)
_STRICT_SINCE = {int(key): version for key, version in STRICT_SINCE.items()}


class ExemptAnswer(list[Part]):
    """A response to a broker. Its time does not count towards any quota."""


class ThrottledAnswer(list[Part]):
    """A response after which the peer is muted for ``mute_ms``."""

    def __init__(self, parts: list[Part], mute_ms: int) -> None:
        super().__init__(parts)
        self.mute_ms = mute_ms


async def _throttled(answering: Coroutine[Any, Any, Response], mute_ms: int) -> Response:
    parts = await answering
    return None if parts is None else ThrottledAnswer(parts, mute_ms)


LimitFetches = Callable[[Clients | None], None]


class Enforcement:
    """Applies quotas to the requests of all listeners. Call ``changed`` after changing ``quotas``."""

    def __init__(self, quotas: ClientQuotas, clock: Timers) -> None:
        self.quotas = quotas
        self.exempt_time = Rate(QuotaWindow())
        """The time that exempt requests use, in percent of a thread."""
        self._known: Clients = quotas.clients.young  # used as a dict, because a lookup costs less than a call
        quotas.clients.young.find = self._find
        self._clock = clock
        self._settings: list[tuple[ConnectionSettings, Dispatch]] = []
        self._limit_fetches: LimitFetches = lambda clients: None
        self._throttles_others = False
        self.on_change: Callable[[], None] = lambda: None
        """Called after quotas have changed."""

    def attach(self, settings: ConnectionSettings) -> None:
        """Also apply quotas to the connections of a listener."""
        self._settings.append((settings, settings.dispatch))
        self._apply(settings, settings.dispatch)

    def detach(self, listener: str) -> None:
        """Stop following a removed listener, whose connections keep the current quotas."""
        self._settings = [each for each in self._settings if each[0].listener_name != listener]

    def limit_fetches_by(self, limit: LimitFetches) -> None:
        """Set the function that passes the clients' buckets to the dispatcher, or None while no quota limits
        fetches."""
        self._limit_fetches = limit
        self.changed()

    def throttle_others(self, *, on: bool) -> None:
        """If ``on``, mute peers after every ``ThrottledAnswer``, even if there are no quotas."""
        if on != self._throttles_others:
            self._throttles_others = on
            self.changed()

    def changed(self) -> None:
        """Apply changed quotas by wrapping only the requests that need it."""
        self._limit_fetches(self._known if self.quotas.table.has(QuotaKey.FETCH) else None)
        for settings, dispatch in self._settings:
            self._apply(settings, dispatch)
        self.on_change()

    def _apply(self, settings: ConnectionSettings, dispatch: Dispatch) -> None:
        table = self.quotas.table
        settings.on_response = None if table.is_empty and not self._throttles_others else self.mute_ms
        settings.unheard = None if table.has(QuotaKey.MUTATION) else list
        if table.has(QuotaKey.PRODUCE):
            dispatch = self._counting(dispatch)
        settings.dispatch = self._timing(dispatch) if table.has(QuotaKey.REQUEST) else dispatch

    def _find(self, key: ClientKey) -> ClientBuckets:
        principal, client_id = key
        assert not isinstance(client_id, int), "a long client id is looked for as it is"
        return self.quotas.of(principal, client_id, self.now_ms())

    def now_ms(self) -> float:
        """The time on the monotonic clock."""
        return self._clock.seconds() * 1000

    def forget_idle(self) -> None:
        """Drop clients that have been idle for an hour. Call this periodically."""
        self.quotas.forget_idle(self.now_ms())

    # -- when a request arrives --------------------------------------------------------------------------------------

    def _counting(self, dispatch: Dispatch) -> Dispatch:
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
        """Count how long requests occupy the reactor."""

        seconds, known = self._clock.seconds, self._known

        async def timed(context: RequestContext, header: RequestHeader, body: memoryview) -> Response:
            bucket = known[context.principal, header.client_id].request
            handling = dispatch(context, header, body)
            if bucket is None:
                del body  # otherwise this reference keeps the body in memory while the handler waits
                return await handling
            began_s = seconds()
            try:
                awaited = handling.send(None)
            except StopIteration as end:
                parts = end.value
            except BaseException:  # the connection is closed, but the time counts
                bucket.record((seconds() - began_s) * 100, seconds() * 1000)
                raise
            else:
                del body
                parts, began_s = await _continue(handling, awaited, began_s, seconds, bucket)
            now_s = seconds()
            now_ms = now_s * 1000
            total = bucket.total + (now_s - began_s) * 100
            if total <= bucket.free and now_ms < bucket.ends_ms and parts.__class__ is list:  # ``add``, inlined
                bucket.total = total
                bucket.last_ms = now_ms
                return parts
            return self._counted(parts, bucket, (now_s - began_s) * 100, now_ms)

        return timed

    def _counted(self, parts: Response, bucket: RateBucket, percent: float, now_ms: float) -> Response:
        """Count a response, which may be exempt, absent, or already throttled."""
        if parts is None or type(parts) is ExemptAnswer:
            self.exempt_time.record(percent, now_ms)
            return parts
        mute_ms = bucket.add(percent, now_ms)
        if mute_ms <= (parts.mute_ms if isinstance(parts, ThrottledAnswer) else 0):
            return parts
        bucket.throttles.add(mute_ms, now_ms)
        return ThrottledAnswer(parts, mute_ms)

    def mutation_quota(self, context: RequestContext, header: RequestHeader) -> MutationQuota:
        """The quota for the partitions that a request creates or deletes."""
        if not self.quotas.table.has(QuotaKey.MUTATION):
            return UNLIMITED
        bucket = self.quotas.of(context.principal, header.client_id, self.now_ms()).mutation
        strict_since = _STRICT_SINCE.get(header.api_key)
        is_strict = strict_since is not None and header.api_version >= strict_since
        return MutationQuota(bucket, self.now_ms, is_strict=is_strict)

    # -- when its response is sent -----------------------------------------------------------------------------------

    def mute_ms(self, context: RequestContext, header: RequestHeader, parts: Response) -> int:
        """A ``ResponseHook``: returns for how many ms to mute the peer, and writes that into the response if there is
        one."""
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
    """For a strict request, the throttle time in its response; for any other, the time until the debt is paid."""
    if not bucket.bound:
        return bucket.window.sample_ms
    if header.api_version >= _STRICT_SINCE[header.api_key]:
        return throttle_time_at_start(header.api_key, header.api_version, parts)
    return bucket.debt_ms(now_ms)


@coroutine
def _continue(
    handling: Coroutine[Any, Any, Response],
    awaited: Any,
    began_s: float,
    seconds: Callable[[], float],
    bucket: RateBucket,
) -> Generator[Any, Any, tuple[Response, float]]:
    """Continue a request after its first wait. Returns the response, and the start time moved forward by all
    waits. A failed request's time counts in ``bucket``."""
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
        except BaseException:  # the time counts, as in the first step
            bucket.record((seconds() - began_s) * 100, seconds() * 1000)
            raise
        finally:
            del failure  # its traceback refers to this frame
