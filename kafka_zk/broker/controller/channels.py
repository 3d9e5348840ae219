"""To each broker an ordered queue of requests over one connection, one request under way at a time.

A request is repeated, with a pause and over a new connection, until it is answered or the broker is gone from the
registry (``remove``): the order in which a broker hears of changes is the order in which they were made. An
UpdateMetadata that still waits takes up the next one, so a slow broker's queue does not grow with every change. A large
request is encoded in turns with everything else that the reactor has to do.

Source: ControllerChannelManager.scala@3.9.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from twisted.internet.defer import Deferred, DeferredList, ensureDeferred
from twisted.logger import Logger

from kafka_zk.base.clock import Timers
from kafka_zk.base.turns import after, worked_off
from kafka_zk.broker.config.inter_broker_protocol import ControlVersions
from kafka_zk.broker.controller.control_requests import VERSIONS, Answer, ControlRequest, UpdateMetadataRequest
from kafka_zk.broker.controller.turns import PARTITION_COST
from kafka_zk.protocol import codec
from kafka_zk.protocol.primitives import Buffer
from kafka_zk.registry.znodes.brokers import BrokerInfo

RETRY_BACKOFF_S = 0.1
RETRIES_A_SECOND = 100
"""Most retries to all brokers together, some 0.5 ms each: from 11 failing brokers on, each is tried less often."""

_log = Logger()


class Connection(Protocol):
    """What a channel needs of a connection (``network.client.KafkaConnection``)."""

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        """The peer's lowest and highest version of each API."""

    def request_encoded(self, api_key: int, version: int, body: Buffer) -> Awaitable[Any]:
        """The peer's response. Fails with any exception when the connection is lost or time is up."""

    def disconnect(self) -> object: ...


Connect = Callable[[BrokerInfo], Awaitable[Connection]]
OnAnswer = Callable[[int, ControlRequest, Answer], None]
OnFailure = Callable[[int, ControlRequest, Exception], None]


class UnsupportedPeer(Exception):
    """The broker does not speak a version of the API that this controller speaks."""


class BrokerChannel:
    """The queue for one broker (for one registration of it)."""

    def __init__(
        self,
        info: BrokerInfo,
        clock: Timers,
        connect: Connect,
        on_answer: OnAnswer,
        on_failure: OnFailure,
        versions: ControlVersions,
        failing: set[int],
    ) -> None:
        self.info = info
        self._failing = failing  # the brokers that their channels do not reach
        self._versions = versions
        self._clock = clock
        self._connect = connect
        self._on_answer = on_answer
        self._on_failure = on_failure
        self._queue: deque[ControlRequest] = deque()
        self._connection: Connection | None = None
        self._running = False
        self._closed = False
        self._queued_count = 0  # since the beginning, as the next one
        self._answered_count = 0
        self._waiting: deque[tuple[int, Deferred[None]]] = deque()  # each for this number of answers

    @property
    def queued(self) -> int:
        """How many requests wait, the one under way included."""
        return len(self._queue)

    def send(self, request: ControlRequest) -> None:
        if self._closed:
            return
        last = self._queue[-1] if len(self._queue) > 1 else None  # the first one is under way
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

    def told(self) -> "Deferred[None]":
        """Fires when the broker has answered everything that was queued before this was called, or is gone."""
        waiting: Deferred[None] = Deferred()
        self._waiting.append((self._queued_count, waiting))
        self._tell_waiting()
        return waiting

    def close(self) -> None:
        """Forget everything that waits; an answer that still comes counts for nothing."""
        self._closed = True
        self._failing.discard(self.info.broker_id)
        self._queue.clear()
        self._tell_waiting()
        self._disconnect()

    async def _run(self) -> None:
        while self._queue:
            request = self._queue[0]
            try:
                answers = await self._exchange(request)
            except Exception as error:  # whatever it was, the broker did not get it
                self._disconnect()
                await self._failed(request, error)
            else:
                self._answered(request, answers)
        self._running = False

    def _answered(self, request: ControlRequest, answers: list[Answer]) -> None:
        if self._closed:
            return
        self._failing.discard(self.info.broker_id)
        self._queue.popleft()
        self._answered_count += 1
        for answer in answers:
            self._tell(self._on_answer, request, answer)
        self._tell_waiting()

    def _tell_waiting(self) -> None:
        while self._waiting and (self._closed or self._waiting[0][0] <= self._answered_count):
            self._waiting.popleft()[1].callback(None)

    async def _failed(self, request: ControlRequest, error: Exception) -> None:
        if self._closed:
            return
        self._tell(self._on_failure, request, error)
        self._failing.add(self.info.broker_id)
        await after(self._clock, max(RETRY_BACKOFF_S, len(self._failing) / RETRIES_A_SECOND))

    def _tell(self, listener: Callable[[int, ControlRequest, Any], None], request: ControlRequest, told: Any) -> None:
        """Whatever the listener does with it, the requests behind this one are sent."""
        try:
            listener(self.info.broker_id, request, told)
        except Exception:
            _log.failure("what broker {id} answered to {kind} was lost", id=self.info.broker_id, kind=request.api_key)

    async def _exchange(self, request: ControlRequest) -> list[Answer]:
        connection = await self._connected()
        version = _common_version(request, self._versions, connection.versions)
        answers = []
        if isinstance(request, UpdateMetadataRequest):
            await worked_off(self._clock, (count * PARTITION_COST for count in request.update.prepare()))
        for message in request.messages(version):
            body = await worked_off(self._clock, codec.encode_body_in_steps(message, request.api_key, version))
            response = await connection.request_encoded(request.api_key, version, body)
            answers.append(request.answer(version, response))
        return answers

    async def _connected(self) -> Connection:
        if self._connection is None:
            connection = await self._connect(self.info)
            if self._closed:
                connection.disconnect()
                raise ConnectionError("the broker is gone")
            self._connection = connection
        return self._connection

    def _disconnect(self) -> None:
        """Whatever comes of it, the next request goes over a new connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.disconnect()
            except Exception:
                _log.failure("the connection to broker {id} was not closed", id=self.info.broker_id)


class Channels:
    """The channels to all registered brokers. ``versions`` are those of the inter-broker protocol."""

    def __init__(
        self, clock: Timers, connect: Connect, on_answer: OnAnswer, on_failure: OnFailure, versions: ControlVersions
    ) -> None:
        self._versions = versions
        self._clock = clock
        self._connect = connect
        self._on_answer = on_answer
        self._on_failure = on_failure
        self._channels: dict[int, BrokerChannel] = {}
        self._failing: set[int] = set()
        self._closed = False

    def add(self, info: BrokerInfo) -> None:
        """A broker is there; a channel that it has already stays."""
        if info.broker_id not in self._channels and not self._closed:
            self._channels[info.broker_id] = BrokerChannel(
                info, self._clock, self._connect, self._on_answer, self._on_failure, self._versions, self._failing
            )

    def remove(self, broker_id: int) -> None:
        """The broker is gone: what it was to be told is dropped."""
        channel = self._channels.pop(broker_id, None)
        if channel is not None:
            channel.close()

    def update(self, info: BrokerInfo) -> None:
        """The broker's endpoints changed: the next connection goes there."""
        channel = self._channels.get(info.broker_id)
        if channel is not None:
            channel.info = info

    def send(self, broker_id: int, request: ControlRequest) -> None:
        """Queue a request; to a broker without a channel nothing is sent."""
        channel = self._channels.get(broker_id)
        if channel is not None:
            channel.send(request)

    async def told(self, limit_s: float, broker_id: int | None = None) -> None:
        """Returns when every broker (or one) has answered what is queued for it now, or is gone, or after so long."""
        over: Deferred[None] = Deferred()
        timer = self._clock.callLater(limit_s, over.callback, None)
        asked = [each for each in self._channels if broker_id in (None, each)]
        waits = DeferredList([self._channels[each].told() for each in asked])
        waits.addCallback(lambda _: None if over.called else over.callback(None))
        try:
            await over
        finally:
            if timer.active():
                timer.cancel()

    def queued(self) -> dict[int, int]:
        """How many requests wait for each broker."""
        return {broker_id: channel.queued for broker_id, channel in sorted(self._channels.items())}

    def close(self) -> None:
        self._closed = True
        for broker_id in list(self._channels):
            self.remove(broker_id)


def _common_version(
    request: ControlRequest, versions: ControlVersions, offered: Mapping[int, tuple[int, int]]
) -> int:
    """That of the inter-broker protocol, or the highest one before it that the broker speaks."""
    highest = request.protocol_version(versions)
    peer_lowest, peer_highest = offered.get(request.api_key, (0, -1))
    version = min(highest, peer_highest)
    if version < max(peer_lowest, VERSIONS[request.api_key][0]):
        raise UnsupportedPeer(
            f"{request.api_key.name}: the broker speaks {peer_lowest} to {peer_highest}, "
            f"inter.broker.protocol.version asks for {highest}"
        )
    return version
