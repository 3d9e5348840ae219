"""Brokers that coordinate a group of one member, on plain values, and a consumer that has joined it."""

from dataclasses import dataclass, field
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from kafka_zk.clients.connection.waiting import run
from kafka_zk.clients.consumer.consumer import Consumer
from kafka_zk.network.client import KafkaConnection
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import BROKER_VERSIONS, ApiKey
from kafka_zk.protocol.errors import ErrorCode
from tests.kafka_zk.clients.connection.fake_cluster import FakeConnection, advance, finish
from tests.kafka_zk.clients.connection.fake_groups import FakeGroups
from tests.kafka_zk.clients.consumer.fake_group import A, B, write

_MEMBER_APIS = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP)
_REQUEST_TIMEOUT_S = 30.0


class _Connection(FakeConnection):
    """A broker handles the requests of a connection one after the other. If a response is late, the connection ends."""

    cluster: "BrokersOfOneMember"

    async def request(
        self, api_key: int, message: Any, *, version: int | None = None, timeout_s: float | None = None
    ) -> Any:
        limit_s = _REQUEST_TIMEOUT_S if timeout_s is None else timeout_s
        late: Any = self.cluster.clock.callLater(limit_s, self.cut)  # zope's interfaces have methods without self
        try:
            return await super().request(api_key, message, version=version)
        finally:
            if late.active():
                late.cancel()

    def _answer(self, result: "Deferred[memoryview]", api_key: int, version: int, body: memoryview) -> None:
        arrived = self.cluster.arrived.setdefault(self, [])
        arrived.append((result, api_key, version, body))
        while arrived and arrived[0][1] not in self.cluster.held:
            super()._answer(*arrived.pop(0))


@dataclass
class BrokersOfOneMember(FakeGroups):
    """The member gets the assignment that it computes itself.

    ``is_refusing``: the brokers accept no connections. ``is_rebalancing``: the member must rejoin. ``held``: requests
    that get no response until ``release``.
    """

    is_refusing: bool = False
    is_rebalancing: bool = False
    generation: int = 0
    is_completing: bool = False
    """Whether the group waits for SyncGroup."""
    held: set[ApiKey] = field(default_factory=set)
    left: list[str] = field(default_factory=list)
    """The members that have left."""
    arrived: dict[_Connection, list[tuple["Deferred[memoryview]", int, int, memoryview]]] = field(default_factory=dict)
    """Requests that brokers have not handled yet."""

    def release(self) -> None:
        """Respond to all requests from now on."""
        self.held.clear()
        for connection, requests in self.arrived.items():
            while requests:
                FakeConnection._answer(connection, *requests.pop(0))

    def asked(self, *api_keys: ApiKey) -> list[int]:
        """The requests of these kinds that were handled, in order."""
        return [api_key for _, api_key in self.seen if api_key in api_keys]

    async def connect(self, reactor: Clock, *where: Any, **options: Any) -> KafkaConnection:
        if self.is_refusing:
            raise ConnectionRefusedError("nobody listens")
        return await super().connect(reactor, *where, **options)

    def connected(self, node_id: int) -> FakeConnection:
        connection = super().connected(node_id)
        connection.__class__ = _Connection
        connection.versions |= {api_key: (0, BROKER_VERSIONS[api_key][1]) for api_key in _MEMBER_APIS}
        return connection

    def refuse(self) -> None:
        """Cut all connections and refuse new ones."""
        self.is_refusing = True
        for connection in list(self.connections):
            connection.cut()

    def answer(self, node_id: int, api_key: int, version: int, body: memoryview) -> bytes:
        if api_key not in _MEMBER_APIS:
            return super().answer(node_id, api_key, version, body)
        self.seen.append((node_id, api_key))
        code = ErrorCode.NONE
        if self.errors and self.errors[0][0] == api_key:
            code = ErrorCode(self.errors.pop(0)[1])
        request = codec.decode_request(api_key, version, body)
        kind = codec.response(api_key)
        response = getattr(self, f"_{ApiKey(api_key).name.lower()}")(request, kind, code)
        return bytes(codec.encode_response(api_key, version, 0, response))

    def _join_group(self, request: Any, kind: Any, code: ErrorCode) -> Any:
        first = request.protocols[0]
        member = kind.JoinGroupResponseMember(member_id="m", group_instance_id=None, metadata=first.metadata)
        if not code:
            self.generation += 1
            self.is_rebalancing, self.is_completing = False, True
        return kind(
            error_code=code, generation_id=self.generation, protocol_type="consumer", protocol_name=first.name,
            leader="m", skip_assignment=False, member_id="m", members=[member],
        )  # fmt: skip

    def _sync_group(self, request: Any, kind: Any, code: ErrorCode) -> Any:
        self.is_completing = self.is_completing and bool(code)
        return kind(
            error_code=code, protocol_type="consumer", protocol_name=request.protocol_name,
            assignment=request.assignments[0].assignment,
        )  # fmt: skip

    def _heartbeat(self, request: Any, kind: Any, code: ErrorCode) -> Any:
        return kind(error_code=code or self._membership(request.generation_id, is_refused=self.is_rebalancing))

    def _leave_group(self, request: Any, kind: Any, code: ErrorCode) -> Any:
        self.left += [each.member_id for each in request.members]
        return kind(error_code=code, members=[])

    def _offset_commit(self, node_id: int, version: int, request: Any, code: ErrorCode, kind: Any) -> Any:
        if request.member_id and not code:
            code = self._membership(request.generation_id_or_member_epoch, is_refused=self.is_completing)
        return super()._offset_commit(node_id, version, request, code, kind)

    def _membership(self, generation: int, *, is_refused: bool) -> ErrorCode:
        if self.left:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.REBALANCE_IN_PROGRESS if is_refused else ErrorCode.NONE


def two_partitions(clock: Clock) -> BrokersOfOneMember:
    """Brokers of topic ``t``, with 40 records in each partition."""
    brokers = BrokersOfOneMember(clock, {"t": [0, 1]})
    for tp in (A, B):
        write(brokers, tp, 0, 40)
    return brokers


def joined(clock: Clock, brokers: BrokersOfOneMember, **options: Any) -> Consumer:
    """A consumer of topic ``t`` that owns its partitions."""
    consumer = Consumer(
        clock,
        group_id="g",
        bootstrap_servers="b0:9092",
        auto_offset_reset="earliest",
        connect=brokers.connect,
        lease_clock_ms=lambda: clock.seconds() * 1000,
        **options,
    )
    consumer.subscribe(["t"])
    finish(clock, run(consumer.start()))
    for _ in range(100):
        if consumer.assignment():
            return consumer
        advance(clock, 0.1)
    raise AssertionError("nothing was assigned")
