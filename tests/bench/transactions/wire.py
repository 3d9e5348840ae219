"""Hand-written transactional producers, because the client must cost next to nothing compared with the broker.

They use plain versions of the APIs, to which both brokers respond alike: InitProducerId 1, AddPartitionsToTxn 1,
Produce 7, EndTxn 1.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from crc32c import crc32c

from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.storage.records.record_batch import RecordBatchBuilder
from tests.bench.groups.wire import text
from tests.bench.partition_wire import Refused, Wire

TIMEOUT_MS = 60_000
_WAITS = (
    ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)  # fmt: skip
_PAUSE_S = 0.001
_WAIT_S = 120.0
_VALUE = bytes(100)
_CRC, _ATTRIBUTES, _BASE_SEQUENCE = 17, 21, 53  # the positions of these fields in a batch


def init_body(transactional_id: str) -> bytes:
    """InitProducerId 1."""
    return text(transactional_id) + struct.pack(">i", TIMEOUT_MS)


def await_coordinator(wire: Wire, transactional_id: str) -> None:
    """Wait until the broker coordinates the id; it creates the topic if that is missing. Raises: Refused."""
    end_s = time.monotonic() + _WAIT_S
    while True:
        wire.send(ApiKey.FIND_COORDINATOR, 1, text(transactional_id) + b"\1")
        (code,) = struct.unpack_from(">h", wire.receive(), 4)
        if not code:
            return
        if code not in _WAITS or time.monotonic() > end_s:
            raise Refused(f"FindCoordinator: {ErrorCode(code).name}")
        time.sleep(0.05)


class Wires:
    """The connections of one client: one to each broker, made when it is first used, and closed by the stack."""

    def __init__(self, stack: ExitStack, ports: Sequence[int]) -> None:
        """``ports``: the brokers' ports by id."""
        self._stack = stack
        self._ports = ports
        self._made: dict[int, Wire] = {}

    def to(self, broker_id: int) -> Wire:
        """The connection to a broker."""
        if broker_id not in self._made:
            self._made[broker_id] = self._stack.enter_context(Wire(self._ports[broker_id]))
        return self._made[broker_id]


def batch(producer_id: int, producer_epoch: int, count: int) -> bytearray:
    """A transactional batch of ``count`` records of 100 bytes; its sequence number is set before it is sent."""
    builder = RecordBatchBuilder(transactional=True)
    for _ in range(count):
        builder.append(int(time.time() * 1000), None, _VALUE)
    return bytearray(builder.build(producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=0))


@dataclass
class TransactionalProducer:
    """One producer and its connections, with methods that send a request and methods that receive a response.

    Each of its transactions writes ``records`` records, spread over partitions of a topic. ``leaders``: connections to
    their leaders, each with the partitions that it leads.
    """

    coordinator: Wire
    transactional_id: str
    topic: str
    leaders: Sequence[tuple[Wire, Sequence[int]]]
    records: int
    producer_id: int = -1
    epoch: int = -1
    _sequence: int = 0
    _batches: dict[int, bytearray] = field(default_factory=dict)
    _partitions: Sequence[int] = field(init=False)

    def __post_init__(self) -> None:
        self._partitions = [number for _, its in self.leaders for number in its]

    def init(self) -> None:
        """Take over the transactional id. Raises: Refused; TimeoutError."""
        end_s = time.monotonic() + _WAIT_S
        while True:
            self.coordinator.send(ApiKey.INIT_PRODUCER_ID, 1, init_body(self.transactional_id))
            code, producer_id, epoch = struct.unpack_from(">hqh", self.coordinator.receive(), 4)
            if not code:
                break
            if code not in _WAITS:
                raise Refused(f"InitProducerId: {ErrorCode(code).name}")
            if time.monotonic() > end_s:
                raise TimeoutError(f"no producer id for {self.transactional_id} within {_WAIT_S:g} s")
            time.sleep(_PAUSE_S)
        self.start(producer_id, epoch)

    def start(self, producer_id: int, epoch: int) -> None:
        """Use this producer id and epoch from now on."""
        self.producer_id, self.epoch = producer_id, epoch
        self._batches = {number: batch(producer_id, epoch, self._each) for number in self._partitions}

    @property
    def _each(self) -> int:
        return self.records // len(self._partitions)

    def send_add(self) -> None:
        numbers = struct.pack(f">i{len(self._partitions)}i", len(self._partitions), *self._partitions)
        added = struct.pack(">i", 1) + text(self.topic) + numbers
        self.coordinator.send(ApiKey.ADD_PARTITIONS_TO_TXN, 1, self._front() + added)

    def receive_add(self) -> bool:
        """Returns whether the partitions were added. The broker refuses them until the previous transaction is
        complete, even though its EndTxn already has a response.
        """
        answer = self.coordinator.receive()
        (code,) = struct.unpack_from(">h", answer, 4 + 4 + len(text(self.topic)) + 4 + 4)
        if code not in (0, *_WAITS):
            raise Refused(f"AddPartitionsToTxn: {ErrorCode(code).name}")
        return bool(code == 0)

    def send_records(self) -> None:
        for wire, partitions in self.leaders:
            parts = [text(self.transactional_id), struct.pack(">hii", -1, 30_000, 1), text(self.topic)]
            parts.append(struct.pack(">i", len(partitions)))
            for number in partitions:
                made = self._batches[number]
                struct.pack_into(">i", made, _BASE_SEQUENCE, self._sequence)
                struct.pack_into(">I", made, _CRC, crc32c(memoryview(made)[_ATTRIBUTES:]))
                parts += [struct.pack(">ii", number, len(made)), bytes(made)]
            wire.send(ApiKey.PRODUCE, 7, b"".join(parts))
        self._sequence += self._each

    def receive_records(self) -> None:
        for wire, _ in self.leaders:
            answer = wire.receive()
            rows = answer[4 + len(text(self.topic)) + 4 : -4]
            codes = {code for _, code, _, _, _ in struct.iter_unpack(">ihqqq", rows)}
            if codes != {0}:
                raise Refused(f"Produce: {[ErrorCode(code).name for code in codes]}")

    def send_commit(self) -> None:
        self.coordinator.send(ApiKey.END_TXN, 1, self._front() + b"\1")

    def receive_commit(self) -> None:
        (code,) = struct.unpack_from(">h", self.coordinator.receive(), 4)
        if code:
            raise Refused(f"EndTxn: {ErrorCode(code).name}")

    def _front(self) -> bytes:
        return text(self.transactional_id) + struct.pack(">qh", self.producer_id, self.epoch)


def transact(producers: Sequence[TransactionalProducer], times: int) -> list[float]:
    """Let each producer commit ``times`` transactions in step; returns the duration of each in seconds."""
    took_s: list[float] = []
    for _ in range(times):
        begun_s = time.perf_counter()
        adding = list(producers)
        while adding:
            for producer in adding:
                producer.send_add()
            adding = [producer for producer in adding if not producer.receive_add()]
            if adding:
                time.sleep(_PAUSE_S)
        for producer in producers:
            producer.send_records()
        for producer in producers:
            producer.receive_records()
        for producer in producers:
            producer.send_commit()
        for producer in producers:
            producer.receive_commit()
            took_s.append(time.perf_counter() - begun_s)
    return took_s
