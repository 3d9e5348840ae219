"""Plays the corpus in the simulator: `python -m tests.corpus.replay SEED` prints the effects on a broker, as JSON.

Each connection of the corpus is played twice: once as recorded, once with damaged requests. The seed cuts its bytes
into pieces, so a piece may be half a frame or several requests; it also chooses the damage. With one seed, a broker
that uses the native module and one that does not print the same, except for ``handled``.
"""

import hashlib
import json
import struct
import sys
from itertools import groupby
from operator import attrgetter
from random import Random
from typing import Any, NamedTuple, cast

from twisted.internet.protocol import ClientFactory, Protocol
from twisted.logger import globalLogBeginner
from twisted.python.failure import Failure

from kafka_zk.broker.metrics.collector import BrokerCollector
from kafka_zk.broker.metrics.request_stats import RequestStats
from kafka_zk.native.loading import implementation
from kafka_zk.sim.machine.process import Process
from kafka_zk.sim.world.clients import make_admin
from kafka_zk.sim.world.world import PORT, SimBroker, World
from tests.corpus import requests
from tests.corpus.requests import Corpus

CONNECT_TIMEOUT_S = 5
BETWEEN_PIECES_MS = (0.0, 0.0, 3.0)
ANSWERED_WITHIN_MS = 2_000
"""Simulated time. A request that waits longer, as a JoinGroup may, counts as one without a response."""
BROKER = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
_LARGEST_PIECE_BYTES = (30, 300, 60_000)
_DAMAGED_BYTES = 3
_IMPLEMENTATION, _REAL_TIME = "kafka_zk_native", "totaltimems_sum"


class Played(NamedTuple):
    """``responses``: by connection, what the broker sent (as a hash) and how the connection ended. ``files``: by path,
    the hash of the content. ``handled``: the native module's counters; empty without it."""

    responses: list[str]
    files: dict[str, str]
    metrics: dict[str, float]
    failures: list[str]
    handled: dict[str, int]


class _Client(Protocol):
    def __init__(self) -> None:
        self.received = bytearray()
        self.is_closed = False

    def connectionMade(self) -> None:
        transport: Any = self.transport
        self.send = transport._put_on_way

    def dataReceived(self, data: bytes) -> None:
        self.received += data

    def connectionLost(self, reason: Failure | None = None) -> None:
        self.is_closed = True


def play(corpus: Corpus, seed: int) -> Played:
    """Send the requests of the corpus to a broker that has its topics."""
    random = Random(seed)
    with World(seed) as world:
        broker = world.broker(1, **{key.replace(".", "_"): value for key, value in BROKER.items()})
        broker.start()
        stats = RequestStats()
        server: Any = broker.broker
        server._stats = stats
        world.until(lambda: broker.is_started)
        admin = make_admin(world, world.process("admin"))
        for name, topic in corpus.topics.items():
            world.run(admin.create_topic(name, topic.partitions, 1))
        collector = BrokerCollector(server.parts, broker.client, stats)
        ids = _new_ids(corpus, broker)
        responses = []
        process = world.process("client")
        for _, recorded in groupby(corpus.requests, attrgetter("connection")):
            frames = [_with_ids(request.frame, ids) for request in recorded]
            for each in (frames, [_damaged(frame, random) for frame in frames]):
                responses.append(_answers(world, process, each, random))
        metrics = _metrics(collector)
        found = {path: _hash(data) for path, data in world.disk.everything(broker.folder).items()}
        failures = [failure.strip().splitlines()[-1] for failure in world.failures]
    native = implementation().native
    return Played(responses, found, metrics, failures, {} if native is None else native.handled())


def _new_ids(corpus: Corpus, broker: SimBroker) -> dict[bytes, bytes]:
    """The simulated topics' ids by those of the corpus."""
    server: Any = broker.broker
    names = server.services.metadata.topic_names
    ids = {name: topic_id.bytes for topic_id, name in names.items()}
    return {topic.topic_id: ids[name] for name, topic in corpus.topics.items()}


def _with_ids(frame: bytes, ids: dict[bytes, bytes]) -> bytes:
    for recorded, simulated in ids.items():
        frame = frame.replace(recorded, simulated)
    return frame


def _damaged(frame: bytes, random: Random) -> bytes:
    """The frame, cut off or with a few bytes changed, but with the same API and version."""
    if not random.randrange(4):
        return frame[: random.randrange(4, len(frame))]
    damaged = bytearray(frame)
    for _ in range(random.randint(1, _DAMAGED_BYTES)):
        damaged[random.randrange(4, len(frame))] = random.randrange(256)
    return bytes(damaged)


def _answers(world: World, process: Process, frames: list[bytes], random: Random) -> str:
    """Send the frames over one connection, in pieces."""
    client = _Client()
    factory = ClientFactory.forProtocol(cast(Any, lambda: client))
    world.network.connector(process)("broker-1", PORT, factory, CONNECT_TIMEOUT_S, None, None).connect()
    world.until(lambda: client.connected)
    for piece in _pieces(b"".join(struct.pack(">i", len(frame)) + frame for frame in frames), random):
        if client.is_closed:
            break
        client.send(piece)
        world.run_for(random.choice(BETWEEN_PIECES_MS))
    world.run_for(ANSWERED_WITHIN_MS)
    shown = f"{len(client.received)} bytes, {_hash(client.received)}{', closed' if client.is_closed else ''}"
    if not client.is_closed:
        cast(Any, client.transport).abortConnection()
        world.run_for(1)
    return shown


def _pieces(data: bytes, random: Random) -> list[bytes]:
    largest, position, pieces = random.choice(_LARGEST_PIECE_BYTES), 0, []
    while position < len(data):
        size = random.randint(1, largest)
        pieces.append(data[position : position + size])
        position += size
    return pieces


def _metrics(collector: BrokerCollector) -> dict[str, float]:
    """The broker's metrics, except those that measure real time or name the implementation."""
    return {
        f"{sample.name} {sorted(sample.labels.items())}": sample.value
        for family in collector.collect()
        for sample in family.samples
        if not sample.name.startswith(_IMPLEMENTATION) and not sample.name.endswith(_REAL_TIME)
    }


def _hash(data: bytes | bytearray) -> str:
    return hashlib.blake2s(data, digest_size=8).hexdigest()


if __name__ == "__main__":
    globalLogBeginner.beginLoggingTo([], discardBuffer=True, redirectStandardIO=False)
    print(json.dumps(play(requests.read(), int(sys.argv[1]))._asdict()))
