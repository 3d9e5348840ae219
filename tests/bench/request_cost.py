"""The cost of one request for a broker, without a clock: `python -m tests.bench.request_cost`.

A Produce, Fetch, OffsetCommit or Heartbeat request goes through all code that our broker runs for it, from the
reactor's turn to the response on the socket, with real sockets and a real log. So do the three requests of a
transaction that arrive together (AddPartitionsToTxn, Produce, EndTxn), with the markers, in one partition and in ten,
and the InitProducerId of a new id. The bench counts

- opcodes of Python, whose number is exactly the same in each run of the same code;
- system calls, by name, as Python makes them;
- the peak of the memory that the turn allocates, which shows a copy of the records.

`request_cost.json` contains the last recorded figures, for each Python from 3.11 on (opcodes depend on the Python
version); test_request_cost.py, a part of `make test`, fails at 10 % more. `--record` writes the file. `--valgrind` adds
machine instructions, which depend on how Python was compiled and are therefore not compared.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import select
import socket
import struct
import subprocess
import sys
import tempfile
import tracemalloc
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, TypeVar

from twisted.internet.defer import Deferred

from kafka_zk.base.events import SILENT, EventSource
from kafka_zk.broker.group.partitions import OFFSETS_TOPIC
from kafka_zk.broker.handlers.table import OFFERED_VERSIONS, Dispatcher
from kafka_zk.broker.process.transaction_verifications import verify_transactions
from kafka_zk.broker.transaction.state_topic import TRANSACTION_STATE_TOPIC
from kafka_zk.network.connection_quotas import ConnectionQuotas
from kafka_zk.network.connection_settings import ConnectionSettings
from kafka_zk.network.listener import Listener, ListenerSettings, OpenPort
from kafka_zk.network.reactor import BrokerReactor
from kafka_zk.network.read_ahead import ReadAhead
from kafka_zk.network.transport import FramePort
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.fetch_request import FetchPartition, FetchRequest, FetchTopic, write_fetch_request
from kafka_zk.protocol.produce import PartitionData, ProduceRequest, TopicData, write_produce_request
from kafka_zk.protocol.request import request_header
from tests.bench.groups.wire import Member
from tests.bench.partition_wire import Wire
from tests.bench.sockets import BUFFER_BYTES, TIMEOUT_S, connected, waiting_bytes
from tests.bench.transactions.wire import TransactionalProducer, init_body
from tests.kafka_zk.broker.conftest import Harness, batch, build_harness
from tests.kafka_zk.network.harness import LocalReactor
from tests.peers.processes import wait_until

R = TypeVar("R")

BASELINE = Path(__file__).with_name("request_cost.json")
TOLERANCE = 0.10
KINDS = (
    "produce 1 KB", "produce 64 KB", "fetch 64 KB", "commit 1", "commit 100", "heartbeat", "transaction",
    "transaction 10", "producer id",
)  # fmt: skip

_PRODUCE_VERSION, _FETCH_VERSION, _COMMIT_VERSION, _HEARTBEAT_VERSION = 11, 17, 9, 4  # of Kafka 3.9's clients
_TOPIC = "measured"
_COMMITTED_TOPIC, _COMMITTED_PARTITIONS = "committed", 100
_OFFSETS_TOPIC_PARTITIONS = 50
_WARM_UP = 40  # turns, after which the interpreter has specialised its code
_MEASURED = 20
_INITIAL_DELAY_S = 3  # group.initial.rebalance.delay.ms
_INSTRUCTION_RUNS = (100, 200)


class Cost(NamedTuple):
    """The cost of one request. ``system_calls``: name -> count."""

    opcodes: int
    system_calls: dict[str, int]
    peak_bytes: int


class _Reactor(BrokerReactor, LocalReactor):
    """A broker's reactor, whose turns the bench runs itself."""


class OneBroker:
    """A listener with all handlers behind it, and one client; ``events``: the broker's event source."""

    def __init__(self, folder: Path, events: EventSource = SILENT) -> None:
        harness = build_harness(folder, events)
        clock: Any = harness.clock
        clock.seconds = partial(attrgetter("rightNow"), clock)  # implemented in C, like the reactor's clock
        self._topic_id = harness.lead(_TOPIC).bytes
        harness.lead(_COMMITTED_TOPIC, _COMMITTED_PARTITIONS)
        harness.lead(OFFSETS_TOPIC, _OFFSETS_TOPIC_PARTITIONS)
        _lead_transactions(harness)
        self._made: dict[str, Callable[[], bytes]] = {
            "transaction": _Transactions(harness, _TOPIC, 1).next,
            "transaction 10": _Transactions(harness, _COMMITTED_TOPIC, 10).next,
            "producer id": _new_id,
        }
        self._dispatcher = Dispatcher(harness.services)
        self._replicas = harness.services.replicas
        self._quotas = harness.services.client_quotas
        self._quotas.limit_fetches_by(self._dispatcher.limit_fetches)
        self._reactor = _Reactor()
        listener, port = self.listen()
        self._client = connected(port)
        self._reactor.until(lambda: listener.connections, TIMEOUT_S)
        transport: Any = listener.connections[0].transport
        self._broker_socket: socket.socket = transport.socket
        self.extra: Callable[[memoryview], object] = lambda body: None
        self._requests = {
            "produce 1 KB": produce_request(batch(b"x" * 1_000)),
            "produce 64 KB": produce_request(batch(b"x" * 64_000)),
            "fetch 64 KB": self._fetch(1),
            "commit 1": _commit(1),
            "commit 100": _commit(_COMMITTED_PARTITIONS),
            "heartbeat": _heartbeat(self._joined(harness, listener, port)),
        }
        for _ in range(3):
            self.turn("produce 64 KB")
        self._requests["first fetch"] = self._fetch(0)
        self.turn("first fetch")  # the next fetch begins at its end, as for any consumer that reads along

    def listen(self, open_port: OpenPort = FramePort) -> tuple[Listener, int]:
        """A new listener in front of the same handlers, and its port."""
        settings = ConnectionSettings(
            self._reactor, "PLAINTEXT", self._dispatch, versions=OFFERED_VERSIONS, read_ahead=ReadAhead(_no_thread)
        )
        self._quotas.attach(settings)
        where = ListenerSettings(
            "127.0.0.1", 0, send_buffer_size_bytes=BUFFER_BYTES, receive_buffer_size_bytes=BUFFER_BYTES
        )
        listener = Listener(self._reactor, where, settings, ConnectionQuotas(), open_port)
        port = listener.bind()
        listener.start_accepting()
        return listener, port

    def _joined(self, harness: Harness, listener: Listener, port: int) -> Member:
        """A member of a stable group; its connection is closed afterwards."""
        with Wire(port) as wire:
            self._reactor.until(lambda: len(listener.connections) == 2, TIMEOUT_S)
            member = Member(wire, "heartbeats")
            for send, receive in (
                (member.send_join, member.receive_join),
                (member.send_join, member.receive_join),
                (member.send_sync, member.receive_sync),
            ):
                send()
                self._reactor.doIteration(TIMEOUT_S)
                harness.clock.advance(_INITIAL_DELAY_S)
                receive()
        self._reactor.until(lambda: len(listener.connections) == 1, TIMEOUT_S)
        return member

    def _dispatch(self, context: Any, header: Any, body: memoryview) -> Any:
        self.extra(body)
        return self._dispatcher.dispatch(context, header, body)

    def _fetch(self, offset: int) -> bytes:
        """The frame of a Fetch for one batch of 64 KB."""
        topics = [FetchTopic(None, self._topic_id, [FetchPartition(0, offset, 65_000, 0)])]
        return _framed(ApiKey.FETCH, _FETCH_VERSION, write_fetch_request(_FETCH_VERSION, FetchRequest(500, 1, topics)))

    def limit(self, properties: Mapping[str, str]) -> None:
        """Set the default quotas of client ids; there are no other quotas."""
        assert not self._quotas.quotas.set("clients", "<default>", properties)
        self._quotas.changed()

    def turn(self, kind: str) -> None:
        """Run one turn: one request in, one response out."""
        self._send(kind)
        self._reactor.doIteration(TIMEOUT_S)
        self._receive(kind)

    def request(self, kind: str) -> bytes:
        """The frames of the next request."""
        return self._made[kind]() if kind in self._made else self._requests[kind]

    def _send(self, kind: str) -> None:
        """Wait until the whole request is in the broker's socket, so that one turn reads it."""
        request = self.request(kind)
        self._client.sendall(request)
        wait_until(lambda: waiting_bytes(self._broker_socket) == len(request), TIMEOUT_S, "the request")

    def _receive(self, kind: str) -> None:
        for _ in range(3 if kind.startswith("transaction") else 1):
            (size_bytes,) = struct.unpack(">i", self._received(4))
            self._received(size_bytes)

    def _received(self, size_bytes: int) -> bytes:
        data = b""
        while len(data) < size_bytes:
            more = self._client.recv(size_bytes - len(data))
            assert more, "the broker closed the connection"
            data += more
        return data

    def cost(self, kind: str) -> Cost:
        """Each figure comes from requests of its own, because tracing costs memory and profiling costs opcodes. Opcodes
        are a mean, because an append adds to the index every few KB.
        """
        for _ in range(_WARM_UP):
            self.turn(kind)
        counts = [self._measured(kind, opcodes) for _ in range(_MEASURED)]
        return Cost(
            round(sum(counts) / _MEASURED), self._measured(kind, _system_calls), self._measured(kind, _peak_bytes)
        )

    def _measured(self, kind: str, measure: Callable[[Callable[[], object]], Any]) -> Any:
        self._send(kind)
        result = measure(lambda: self._reactor.doIteration(TIMEOUT_S))
        self._receive(kind)
        return result

    def close(self) -> None:
        self._client.close()
        self._reactor.close()


class _Collected(Wire):
    """Collects the frames instead of sending them."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def send(self, api_key: int, version: int, body: bytes) -> None:
        self.frames.append(_framed(ApiKey(api_key), version, body))


def _lead_transactions(harness: Harness) -> None:
    harness.lead(TRANSACTION_STATE_TOPIC)
    harness.markers.services = harness.services
    verify_transactions(harness.services, _no_connection)


_ids = itertools.count()


def _new_id() -> bytes:
    return _framed(ApiKey.INIT_PRODUCER_ID, 1, init_body(f"an-application-{next(_ids):06}"))


class _Transactions:
    """Transactions that write one record each to the same partitions."""

    def __init__(self, harness: Harness, topic: str, partitions: int) -> None:
        who = f"measured-{partitions}"
        begin = codec.request(ApiKey.INIT_PRODUCER_ID)(transactional_id=who, transaction_timeout_ms=60_000)
        begun = harness.ask(ApiKey.INIT_PRODUCER_ID, 1, begin)
        self._wire = _Collected()
        leaders = [(self._wire, range(partitions))]
        self._producer = TransactionalProducer(self._wire, who, topic, leaders, partitions)
        self._producer.start(begun.producer_id, begun.producer_epoch)

    def next(self) -> bytes:
        """The requests of the next transaction."""
        for send in (self._producer.send_add, self._producer.send_records, self._producer.send_commit):
            send()
        frames, self._wire.frames = self._wire.frames, []
        return b"".join(frames)


def produce_request(records: bytes) -> bytes:
    """The frame of a Produce with one batch."""
    topics = [TopicData(_TOPIC, [PartitionData(0, records)])]
    parts = write_produce_request(_PRODUCE_VERSION, ProduceRequest(None, -1, 30_000, topics))
    return _framed(ApiKey.PRODUCE, _PRODUCE_VERSION, b"".join(bytes(part) for part in parts))


def _no_connection(broker_id: int) -> Any:
    raise AssertionError("the broker is its own coordinator")


def _commit(count: int) -> bytes:
    """A commit by a consumer that assigns partitions itself."""
    commit = codec.request(ApiKey.OFFSET_COMMIT)
    topic = commit.OffsetCommitRequestTopic
    partitions = [
        topic.OffsetCommitRequestPartition(
            partition_index=each, committed_offset=7, committed_leader_epoch=-1, committed_metadata=""
        )
        for each in range(count)
    ]
    request = commit(
        group_id=f"commits-{count}", generation_id_or_member_epoch=-1, member_id="", group_instance_id=None,
        topics=[topic(name=_COMMITTED_TOPIC, partitions=partitions)],
    )  # fmt: skip
    return _framed(
        ApiKey.OFFSET_COMMIT, _COMMIT_VERSION, codec.encode_body(request, ApiKey.OFFSET_COMMIT, _COMMIT_VERSION)
    )


def _heartbeat(member: Member) -> bytes:
    request = codec.request(ApiKey.HEARTBEAT)(
        group_id=member.group, generation_id=member.generation, member_id=member.member_id, group_instance_id=None
    )
    body = codec.encode_body(request, ApiKey.HEARTBEAT, _HEARTBEAT_VERSION)
    return _framed(ApiKey.HEARTBEAT, _HEARTBEAT_VERSION, body)


def _no_thread(work: Callable[[], R]) -> Deferred[R]:
    raise AssertionError("what was just written is in the page cache")


def _framed(api_key: ApiKey, version: int, body: bytes | bytearray) -> bytes:
    frame = request_header(api_key, version, 7, "client") + body
    return struct.pack(">i", len(frame)) + frame


def opcodes(work: Callable[[], object]) -> int:
    """The number of Python opcodes that ``work`` runs."""
    return _opcodes_by_monitoring(work) if sys.version_info >= (3, 12) else _opcodes_by_tracing(work)


def _opcodes_by_tracing(work: Callable[[], object]) -> int:
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        if event == "opcode":
            count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def _opcodes_by_monitoring(work: Callable[[], object]) -> int:
    """From Python 3.12 on; tracing opcodes is unreliable there."""
    count = 0

    def instruction(code: object, offset: int) -> None:
        nonlocal count
        count += 1

    monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
    tool, events = monitoring.PROFILER_ID, monitoring.events
    monitoring.use_tool_id(tool, __name__)
    try:
        monitoring.register_callback(tool, events.INSTRUCTION, instruction)
        monitoring.set_events(tool, events.INSTRUCTION)
        work()
        monitoring.set_events(tool, events.NO_EVENTS)
    finally:
        monitoring.free_tool_id(tool)
    return count


def _system_calls(work: Callable[[], object]) -> dict[str, int]:
    calls: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and (
            isinstance(getattr(function, "__self__", None), socket.socket | select.epoll)
            or getattr(function, "__module__", None) == "posix"
        ):
            calls[function.__name__] += 1

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    del calls["fileno"]  # this call asks the object, not the kernel
    return dict(sorted(calls.items()))


def _peak_bytes(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        work()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def complaints(kind: str, measured: Cost, recorded: Cost) -> list[str]:
    """The figures that exceed the record by more than TOLERANCE, and additional system calls; empty if there are none.
    """
    found = []
    for what, now, then in (
        ("Python opcodes", measured.opcodes, recorded.opcodes),
        ("bytes of memory at the peak", measured.peak_bytes, recorded.peak_bytes),
    ):
        if now > then * (1 + TOLERANCE):
            found.append(f"{kind}: {now:,} {what}, {now / then - 1:.0%} more than the {then:,} on record")
    calls = Counter(measured.system_calls) - Counter(recorded.system_calls)
    if calls:
        found.append(f"{kind}: system calls that were not made before: {dict(calls)}")
    return found


def python_version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def recorded() -> dict[str, Cost]:
    """The record for this Python, by kind; empty if there is none."""
    entries = json.loads(BASELINE.read_text()).get(python_version(), {}) if BASELINE.exists() else {}
    return {kind: Cost(**cost) for kind, cost in entries.items()}


def newest_recorded(kind: str) -> Cost:
    """The record of the newest Python that has one of this kind."""
    entries = {version: costs for version, costs in json.loads(BASELINE.read_text()).items() if kind in costs}
    newest = max(entries, key=lambda version: tuple(map(int, version.split("."))))
    return Cost(**entries[newest][kind])


def _record(costs: dict[str, Cost]) -> None:
    entries = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    entries[python_version()] = {kind: cost._asdict() for kind, cost in costs.items()}
    BASELINE.write_text(json.dumps(entries, indent=2, sort_keys=True) + "\n")


def measure_all() -> dict[str, Cost]:
    """The cost of each kind, all in one broker."""
    with tempfile.TemporaryDirectory(prefix="kafka-zk-request-cost-") as folder:
        broker = OneBroker(Path(folder))
        try:
            return {kind: broker.cost(kind) for kind in KINDS}
        finally:
            broker.close()


def machine_instructions(kind: str) -> int:
    """The machine instructions of a request, including the client's part: the difference of two runs under valgrind."""
    counts = []
    for turns in _INSTRUCTION_RUNS:
        command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", sys.executable]
        command += ["-m", "tests.bench.request_cost", "--turns", str(turns), "--kind", kind]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONHASHSEED": "0"}
        )
        found = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
        assert found is not None, done.stderr
        counts.append(int(found[1].replace(",", "")))
    return (counts[1] - counts[0]) // (_INSTRUCTION_RUNS[1] - _INSTRUCTION_RUNS[0])


def _only_turns(kind: str, turns: int) -> None:
    with tempfile.TemporaryDirectory(prefix="kafka-zk-request-cost-") as folder:
        broker = OneBroker(Path(folder))
        for _ in range(turns):
            broker.turn(kind)
        broker.close()


def main() -> None:
    """Print a table; with --record, write the record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--record", action="store_true", help="write the figures of this Python to request_cost.json")
    parser.add_argument("--valgrind", action="store_true", help="count machine instructions, too (a minute)")
    parser.add_argument("--turns", type=int, help="only handle this many requests of --kind, for a profiler")
    parser.add_argument("--kind", choices=KINDS, default=KINDS[0])
    options = parser.parse_args()
    if options.turns is not None:
        _only_turns(options.kind, options.turns)
        return
    costs = measure_all()
    print(f"{'one request':14} {'opcodes':>8} {'peak bytes':>11}  system calls")
    for kind, cost in costs.items():
        calls = ", ".join(name if count == 1 else f"{count} {name}" for name, count in cost.system_calls.items())
        print(f"{kind:14} {cost.opcodes:8,} {cost.peak_bytes:11,}  {calls}")
        if options.valgrind:
            print(f"{'':14} {machine_instructions(kind):8,} machine instructions, the client's part included")
    if options.record:
        _record(costs)


if __name__ == "__main__":
    main()
