"""Brokers that coordinate a group of one member, on plain values, and a consumer that has joined it."""

from dataclasses import dataclass, field
from typing import Any

from twisted.internet.task import Clock

from kafka_zk.client.waiting import run
from kafka_zk.consumer.consumer import Consumer
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import BROKER_VERSIONS, ApiKey
from kafka_zk.protocol.errors import ErrorCode
from tests.kafka_zk.client.fake_cluster import FakeConnection, advance, finish
from tests.kafka_zk.client.fake_groups import FakeGroups

_MEMBER_APIS = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP)


class _Connection(FakeConnection):
    async def request(
        self, api_key: int, message: Any, *, version: int | None = None, timeout_s: float | None = None
    ) -> Any:
        return await super().request(api_key, message, version=version)


@dataclass
class BrokersOfOneMember(FakeGroups):
    """The member gets what it assigns to itself. ``is_refusing``: nobody can connect any more."""

    is_refusing: bool = False
    left: list[str] = field(default_factory=list)
    """The members that have left."""

    async def connect(self, reactor: Clock, *where: Any, **options: Any) -> FakeConnection:
        if self.is_refusing:
            raise ConnectionRefusedError("nobody listens")
        connection = await super().connect(reactor, *where, **options)
        connection.__class__ = _Connection
        connection.versions |= {api_key: (0, BROKER_VERSIONS[api_key][1]) for api_key in _MEMBER_APIS}
        return connection

    def refuse(self) -> None:
        """Cut all connections, and let nobody connect again."""
        self.is_refusing = True
        for connection in list(self.connections):
            connection.cut()

    def answer(self, node_id: int, api_key: int, version: int, body: memoryview) -> bytes:
        if api_key not in _MEMBER_APIS:
            return super().answer(node_id, api_key, version, body)
        self.seen.append((node_id, api_key))
        request = codec.decode_request(api_key, version, body)
        kind = codec.response(api_key)
        response = getattr(self, f"_{ApiKey(api_key).name.lower()}")(request, kind)
        return bytes(codec.encode_response(api_key, version, 0, response))

    def _join_group(self, request: Any, kind: Any) -> Any:
        first = request.protocols[0]
        member = kind.JoinGroupResponseMember(member_id="m", group_instance_id=None, metadata=first.metadata)
        return kind(
            error_code=ErrorCode.NONE, generation_id=1, protocol_type="consumer", protocol_name=first.name,
            leader="m", skip_assignment=False, member_id="m", members=[member],
        )  # fmt: skip

    def _sync_group(self, request: Any, kind: Any) -> Any:
        return kind(
            error_code=ErrorCode.NONE, protocol_type="consumer", protocol_name=request.protocol_name,
            assignment=request.assignments[0].assignment,
        )  # fmt: skip

    def _heartbeat(self, request: Any, kind: Any) -> Any:
        return kind(error_code=ErrorCode.NONE)

    def _leave_group(self, request: Any, kind: Any) -> Any:
        self.left += [each.member_id for each in request.members]
        return kind(error_code=ErrorCode.NONE, members=[])


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
