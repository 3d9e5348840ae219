"""An ordered queue of requests to each broker, over one connection, one at a time.

A failed request is repeated after a pause over a new connection, until the broker answers or is unregistered
(``remove``); so brokers receive changes in order. A queued UpdateMetadata absorbs the next, so a slow broker's queue
stays short. Large requests are encoded in slices; the reactor does other work in between.
Source: ControllerChannelManager.scala@3.9.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol

from twisted.internet.defer import Deferred, DeferredList, ensureDeferred
from twisted.logger import Logger

from kafka_zk.base.clock import Timers
from kafka_zk.base.turns import after, run_in_turns
from kafka_zk.broker.config.inter_broker_protocol import ControlVersions
from kafka_zk.broker.controller.control_requests import VERSIONS, Answer, ControlRequest, UpdateMetadataRequest
from kafka_zk.broker.controller.turns import PARTITION_COST
from kafka_zk.protocol import codec
from kafka_zk.protocol.primitives import Buffer
from kafka_zk.registry.znodes.brokers import BrokerInfo

RETRY_BACKOFF_S = 0.1
ATTEMPTS_A_SECOND = 100
"""Maximum number of failed attempts per second, for all known brokers together and for all unknown brokers together. An
attempt takes about 0.5 ms."""
ATTEMPTS_AT_ONCE = 200
"""Number of first connections that begin without a pause."""

_log = Logger()


class ControlConnection(Protocol):
    """The methods of ``KafkaConnection`` that a channel uses."""

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        """Lowest and highest version of each API."""

    def request_encoded(self, api_key: int, version: int, body: Buffer) -> Awaitable[Any]:
        """Send an encoded request. Raises if the connection is lost or the request times out."""

    def disconnect(self) -> object: ...


Connect = Callable[[BrokerInfo], Awaitable[ControlConnection]]
OnAnswer = Callable[[int, ControlRequest, Answer], None]
OnFailure = Callable[[int, ControlRequest, Exception], None]


class UnsupportedPeer(Exception):
    """The broker and this controller share no version of the API."""


class ConnectPace:
    """Spreads connection attempts to brokers that failed or appeared at the same time, because thousands of
    registrations without a running broker must not delay clients. Known brokers do not wait. Shared by all channels."""

    def __init__(self, clock: Timers) -> None:
        self._clock = clock
        self._known: set[int] = set()  # ids of brokers that hold replicas or have answered
        self._failing: set[int] = set()  # ids of unknown brokers whose last request failed
        self._known_failing: set[int] = set()  # ids of known brokers whose last request failed
        self._waiting: set[int] = set()  # ids of brokers that pause before their first connection
        self._first_s = self._retry_s = clock.seconds()  # earliest next first connection; earliest next retry

    def know(self, broker_ids: Iterable[int]) -> None:
        """Connect to these brokers without a pause; unknown brokers do not delay their retries."""
        self._known.update(broker_ids)

    def first_pause_s(self, broker_id: int) -> float:
        """Pause before a broker's first connection; 0 if it is known, and for the first ATTEMPTS_AT_ONCE. After the
        pause, call ``not_waiting``."""
        if broker_id in self._known:
            return 0.0
        now_s = self._clock.seconds()
        latest_s = now_s + (ATTEMPTS_AT_ONCE + len(self._waiting) + 1) / ATTEMPTS_A_SECOND
        self._first_s = min(latest_s, max(self._first_s, now_s) + 1 / ATTEMPTS_A_SECOND)
        pause_s = max(0.0, self._first_s - now_s - ATTEMPTS_AT_ONCE / ATTEMPTS_A_SECOND)
        if pause_s:
            self._waiting.add(broker_id)
        return pause_s

    def not_waiting(self, broker_id: int) -> None:
        """End the pause of a broker that is now connected or gone, so that it does not delay others."""
        self._waiting.discard(broker_id)

    def retry_pause_s(self, broker_id: int) -> float:
        """Seconds until a broker that just failed is tried again."""
        if broker_id in self._known:
            self._known_failing.add(broker_id)
            return max(RETRY_BACKOFF_S, len(self._known_failing) / ATTEMPTS_A_SECOND)
        self._failing.add(broker_id)
        now_s = self._clock.seconds()
        after_others_s = self._retry_s + 1 / ATTEMPTS_A_SECOND - now_s
        pause_s = max(RETRY_BACKOFF_S, min(after_others_s, len(self._failing) / ATTEMPTS_A_SECOND))
        self._retry_s = now_s + pause_s
        return pause_s

    def not_failing(self, broker_id: int) -> None:
        """Record that the broker answered or is gone."""
        self._failing.discard(broker_id)
        self._known_failing.discard(broker_id)


class BrokerChannel:
    """The queue for one registration of a broker."""

    def __init__(
        self,
        info: BrokerInfo,
        clock: Timers,
        connect: Connect,
        on_answer: OnAnswer,
        on_failure: OnFailure,
        versions: ControlVersions,
        pace: ConnectPace,
    ) -> None:
        self.info = info
        self._pace = pace
        self._versions = versions
        self._clock = clock
        self._connect = connect
        self._on_answer = on_answer
        self._on_failure = on_failure
        self._queue: deque[ControlRequest] = deque()
        self._connection: ControlConnection | None = None
        self._running = False
        self._closed = False
        self._queued_count = 0  # requests queued since construction
        self._answered_count = 0  # requests answered since construction; <= _queued_count
        self._waiting: deque[tuple[int, Deferred[None]]] = deque()  # (answered count to wait for, Deferred)

    @property
    def queued(self) -> int:
        """Number of queued requests, including the one in progress."""
        return len(self._queue)

    def send(self, request: ControlRequest) -> None:
        if self._closed:
            return
        last = self._queue[-1] if len(self._queue) > 1 else None  # the first request is in progress
        if isinstance(last, UpdateMetadataRequest) and isinstance(request, UpdateMetadataRequest):
            merged = last.merged(request)
            if merged is not None:
                self._queue[-1] = merged
                return
        self._queue.append(request)
        self._queued_count += 1
        if not self._running:
            self._running = True
            ensureDeferred(self._run())

    def all_answered(self) -> "Deferred[None]":
        """Fires when the broker has answered every request queued before this call, or is gone."""
        waiting: Deferred[None] = Deferred()
        self._waiting.append((self._queued_count, waiting))
        self._wake_waiting()
        return waiting

    def close(self) -> None:
        """Drop queued requests and ignore late responses."""
        self._closed = True
        self._pace.not_failing(self.info.broker_id)
        self._pace.not_waiting(self.info.broker_id)
        self._queue.clear()
        self._wake_waiting()
        self._disconnect()

    async def _run(self) -> None:
        if self._connection is None and (pause_s := self._pace.first_pause_s(self.info.broker_id)):
            await after(self._clock, pause_s)
            if not self._closed:  # after ``close``, the broker's next registration may be waiting
                self._pace.not_waiting(self.info.broker_id)
        while self._queue:
            request = self._queue[0]
            try:
                answers = await self._exchange(request)
            except Exception as error:  # the broker may not have received the request
                self._disconnect()
                await self._failed(request, error)
            else:
                self._answered(request, answers)
        self._running = False

    def _answered(self, request: ControlRequest, answers: list[Answer]) -> None:
        if self._closed:
            return
        self._pace.not_failing(self.info.broker_id)
        self._pace.know([self.info.broker_id])
        self._queue.popleft()
        self._answered_count += 1
        for answer in answers:
            self._notify(self._on_answer, request, answer)
        self._wake_waiting()

    def _wake_waiting(self) -> None:
        while self._waiting and (self._closed or self._waiting[0][0] <= self._answered_count):
            self._waiting.popleft()[1].callback(None)

    async def _failed(self, request: ControlRequest, error: Exception) -> None:
        if self._closed:
            return
        self._notify(self._on_failure, request, error)
        await after(self._clock, self._pace.retry_pause_s(self.info.broker_id))

    def _notify(
        self, listener: Callable[[int, ControlRequest, Any], None], request: ControlRequest, result: Answer | Exception
    ) -> None:
        """Call a listener; its errors do not stop the queue."""
        try:
            listener(self.info.broker_id, request, result)
        except Exception:
            api = request.api_key
            _log.failure("broker {id}'s response to {api} could not be handled", id=self.info.broker_id, api=api)

    async def _exchange(self, request: ControlRequest) -> list[Answer]:
        connection = await self._connected()
        version = _common_version(request, self._versions, connection.versions)
        answers = []
        if isinstance(request, UpdateMetadataRequest):
            await run_in_turns(self._clock, (count * PARTITION_COST for count in request.update.prepare()))
        for message in request.messages(version):
            body = await run_in_turns(self._clock, codec.encode_body_in_steps(message, request.api_key, version))
            response = await connection.request_encoded(request.api_key, version, body)
            answers.append(request.answer(version, response))
        return answers

    async def _connected(self) -> ControlConnection:
        if self._connection is None:
            connection = await self._connect(self.info)
            if self._closed:
                connection.disconnect()
                raise ConnectionError("the broker is gone")
            self._connection = connection
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.disconnect()
            except Exception:
                _log.failure("the connection to broker {id} could not be closed", id=self.info.broker_id)


class Channels:
    """The channels to all registered brokers. ``versions``: the API versions of the inter-broker protocol."""

    def __init__(
        self, clock: Timers, connect: Connect, on_answer: OnAnswer, on_failure: OnFailure, versions: ControlVersions
    ) -> None:
        self._versions = versions
        self._clock = clock
        self._connect = connect
        self._on_answer = on_answer
        self._on_failure = on_failure
        self._channels: dict[int, BrokerChannel] = {}
        self._pace = ConnectPace(clock)
        self._closed = False

    def know(self, broker_ids: Iterable[int]) -> None:
        """Do not let unknown brokers delay these (see ``ConnectPace``)."""
        self._pace.know(broker_ids)

    def add(self, info: BrokerInfo) -> None:
        if info.broker_id not in self._channels and not self._closed:
            self._channels[info.broker_id] = BrokerChannel(
                info, self._clock, self._connect, self._on_answer, self._on_failure, self._versions, self._pace
            )

    def remove(self, broker_id: int) -> None:
        """Close the broker's channel and drop its queued requests."""
        channel = self._channels.pop(broker_id, None)
        if channel is not None:
            channel.close()

    def update(self, info: BrokerInfo) -> None:
        """Use the broker's new endpoints for the next connection."""
        channel = self._channels.get(info.broker_id)
        if channel is not None:
            channel.info = info

    def send(self, broker_id: int, request: ControlRequest) -> None:
        """Queue a request. It is ignored if the broker has no channel."""
        channel = self._channels.get(broker_id)
        if channel is not None:
            channel.send(request)

    async def all_answered(self, limit_s: float, broker_id: int | None = None) -> None:
        """Wait until all brokers (or one) have answered all requests so far or are gone, at most ``limit_s``."""
        over: Deferred[None] = Deferred()
        timer = self._clock.callLater(limit_s, over.callback, None)
        asked = [each for each in self._channels if broker_id in (None, each)]
        waits = DeferredList([self._channels[each].all_answered() for each in asked])
        waits.addCallback(lambda _: None if over.called else over.callback(None))
        try:
            await over
        finally:
            if timer.active():
                timer.cancel()

    def queued(self) -> dict[int, int]:
        """Number of queued requests by broker id."""
        return {broker_id: channel.queued for broker_id, channel in sorted(self._channels.items())}

    def close(self) -> None:
        self._closed = True
        for broker_id in list(self._channels):
            self.remove(broker_id)


def _common_version(
    request: ControlRequest, versions: ControlVersions, offered: Mapping[int, tuple[int, int]]
) -> int:
    """The highest version that the broker supports, at most that of the inter-broker protocol."""
    highest = request.protocol_version(versions)
    peer_lowest, peer_highest = offered.get(request.api_key, (0, -1))
    version = min(highest, peer_highest)
    if version < max(peer_lowest, VERSIONS[request.api_key][0]):
        raise UnsupportedPeer(
            f"{request.api_key.name}: the broker speaks {peer_lowest} to {peer_highest}, "
            f"inter.broker.protocol.version asks for {highest}"
        )
    return version
