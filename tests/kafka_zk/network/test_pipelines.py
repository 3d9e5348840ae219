"""Any pipeline of requests, cut at any point, gets complete responses in order, and its memory is counted correctly."""

import struct
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.protocol import Protocol
from twisted.internet.task import Clock

from kafka_zk.base.turns import pause
from kafka_zk.broker.replica.delayed_produce import PassedWait
from kafka_zk.broker.replica.purgatory import Purgatory
from kafka_zk.network.connection_settings import ConnectionSettings
from kafka_zk.network.memory_pool import MemoryPool
from kafka_zk.network.supervised_connection import SupervisedConnection
from kafka_zk.network.transport import RECEIVE_BUFFER_BYTES
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.request import RequestContext, RequestHeader
from tests.kafka_zk.network.server import request
from tests.kafka_zk.network.test_in_flight import Wire

LIMIT_BYTES = 1_000_000


class Asked(NamedTuple):
    """A request, and the behaviour of its handler.

    ``reserved_bytes``: one value for each of its turns. ``releases``: it then releases everything and waits.
    """

    size_bytes: int
    reserved_bytes: tuple[int, ...]
    releases: bool
    is_produce: bool
    answer_bytes: int


ASKED = st.builds(
    Asked,
    size_bytes=st.sampled_from([0, 100, 5000, 20_000, 150_000]),
    reserved_bytes=st.lists(st.sampled_from([0, 1000, 70_000]), max_size=3).map(tuple),
    releases=st.booleans(),
    is_produce=st.booleans(),
    answer_bytes=st.sampled_from([0, 100_000]),
)


class Broker:
    """One connection whose requests behave as ``asked`` says."""

    def __init__(self, asked: list[Asked]) -> None:
        self.clock = Clock()
        self.pool = MemoryPool(LIMIT_BYTES)
        self.wire = Wire()
        self.released_bytes: list[int] = []  # the memory counted after a request had released everything
        self._asked = asked
        self._purgatory = Purgatory(self.clock)
        settings = ConnectionSettings(self.clock, "PLAINTEXT", self._answer, memory=self.pool)
        self.connection = SupervisedConnection(settings, 1, lambda connection: None)
        Protocol.makeConnection(self.connection, self.wire)

    async def _answer(self, context: RequestContext, header: RequestHeader, body: memoryview) -> Any:
        asked = self._asked[header.correlation_id]
        for size_bytes in asked.reserved_bytes:
            await context.memory.reserve(size_bytes)
            await pause(self.clock, 0)
        del body
        if asked.is_produce:
            await self._purgatory.wait(["key"], lambda: False, 10, kind=PassedWait)
        elif asked.releases:
            context.memory.release()
            await pause(self.clock, 0.01)
            self.released_bytes.append(self.pool.used_bytes + self.pool.overdraft_bytes)
        return [struct.pack(">i", header.correlation_id), bytes(asked.answer_bytes)]

    def check(self) -> None:
        account = self.connection._memory
        assert account.size_bytes >= account.frame_bytes + account.reserved_bytes
        assert self.pool.used_bytes + self.pool.overdraft_bytes == account.size_bytes

    def receive(self, data: bytes) -> None:
        """Receive data as from a transport that is not paused."""
        self.settle()
        assert not self.wire.is_paused
        self.connection.dataReceived(data)
        self.check()

    def settle(self) -> None:
        for _ in range(1000):
            if not self.connection.is_busy and not self.wire.is_paused:
                return
            self.clock.advance(0.01)
            self.check()
        raise AssertionError("the pipeline stands still")


@given(st.lists(ASKED, min_size=1, max_size=6), st.lists(st.integers(1, RECEIVE_BUFFER_BYTES), max_size=20))
def test_a_pipeline_is_answered_and_its_memory_adds_up(asked: list[Asked], pieces: list[int]) -> None:
    broker = Broker(asked)
    data = b"".join(
        request(number, bytes(each.size_bytes), api_key=ApiKey.PRODUCE if each.is_produce else ApiKey.METADATA)
        for number, each in enumerate(asked)
    )
    whole = [RECEIVE_BUFFER_BYTES] * (len(data) // RECEIVE_BUFFER_BYTES + 1)
    for start, end in pairwise(accumulate([*pieces, *whole], initial=0)):
        if start < len(data):
            broker.receive(data[start:end])
    broker.settle()
    assert broker.wire.sent == list(range(len(asked)))
    assert not broker.wire.is_closed
    assert (broker.pool.used_bytes, broker.pool.overdraft_bytes) == (0, 0)


def test_a_request_that_only_waits_holds_nothing_whatever_came_before_it() -> None:
    """In an earlier version, a large OffsetCommit and a JoinGroup in one segment closed the connection."""
    committed = Asked(40_000, (70_000, 70_000), releases=False, is_produce=False, answer_bytes=0)
    joining = Asked(5000, (), releases=True, is_produce=False, answer_bytes=0)
    broker = Broker([committed, joining])
    broker.receive(request(0, bytes(committed.size_bytes)) + request(1, bytes(joining.size_bytes)))
    broker.settle()
    assert broker.wire.sent == [0, 1]
    assert broker.released_bytes == [0]
