"""The broker under attack, started as a user would start it, and the requests of an honest client."""

import re
import struct
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kafka_zk.embedded.broker import BrokerProcess
from kafka_zk.embedded.cluster import wait_ready
from kafka_zk.embedded.ports import free_port
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.storage.records.record_batch import iter_batches
from kafka_zk.storage.records.record_decoder import decode_records
from kafka_zk.testing.timings import SESSION_TIMEOUT_MS
from tests.attack import payloads
from tests.attack.connection import Connection

PROBED_TOPIC = "probed"
PATIENCE_S = 10.0
POLL_S = 0.05
EARLIEST, LATEST = -2, -1
_METADATA_VERSION = 1
_FETCHED_HEAD = 4 + 2 + 8 + 8 + 4  # partition, error, high watermark, last stable offset, aborted transactions


class Refused(Exception):
    """An honest request got an error response, or the broker closed its connection."""


def wait_for(condition: Callable[[], Any], what: str, timeout_s: float = PATIENCE_S) -> Any:
    """Poll until ``condition()`` is true, and return its value. If an honest request in it fails, polling continues."""
    deadline_s = time.monotonic() + timeout_s
    failure = ""
    while True:
        try:
            if value := condition():
                return value
        except (Refused, OSError) as error:
            failure = f" (last: {error})"
        assert time.monotonic() < deadline_s, f"{what}: not within {timeout_s:g} s{failure}"
        time.sleep(POLL_S)


class Victim:
    """A broker process with id 0 on ``zookeeper_connect``; ``start`` it first.

    Args:
        descriptor_limit: the broker's ``ulimit -n``; None does not change it.
        arguments: further arguments of ``kafka-zk broker``.
        client_port: the port of a separate listener for clients; brokers use the other one.
        secured_ports: the ports of further listeners, by protocol; brokers then have a listener of their own.
    """

    def __init__(
        self,
        folder: Path,
        zookeeper_connect: str,
        properties: Mapping[str, str] | None = None,
        descriptor_limit: int | None = None,
        arguments: tuple[str, ...] = (),
        client_port: int | None = None,
        secured_ports: Mapping[str, int] | None = None,
    ) -> None:
        port = free_port()
        settings = {"zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS), **(properties or {})}
        if client_port is not None:
            settings["listeners"] = f"PLAINTEXT://127.0.0.1:{port},CLIENTS://127.0.0.1:{client_port}"
            settings["listener.security.protocol.map"] = "PLAINTEXT:PLAINTEXT,CLIENTS:PLAINTEXT"
            settings["inter.broker.listener.name"] = "PLAINTEXT"
        if secured_ports is not None:
            ports = {"PLAINTEXT": port, "INSIDE": free_port(), **secured_ports}
            settings["listeners"] = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
            settings["listener.security.protocol.map"] = ",".join(
                f"{name}:{'PLAINTEXT' if name == 'INSIDE' else name}" for name in ports
            )
            settings["inter.broker.listener.name"] = "INSIDE"
        self.broker = BrokerProcess(folder, 0, port, zookeeper_connect, settings)
        self.zookeeper_connect = zookeeper_connect
        self.connections: list[Connection] = []
        process = self.broker.process
        process.command += arguments
        if descriptor_limit is not None:
            process.command[:0] = ["/bin/sh", "-c", f'ulimit -n {descriptor_limit}; exec "$@"', "sh"]

    @property
    def port(self) -> int:
        return self.broker.port

    @property
    def log_dir(self) -> Path:
        return self.broker.log_dir

    def start(self) -> None:
        """Start the broker and wait until it serves clients. Raises: ProcessFailed."""
        self.broker.start()
        wait_ready([self.broker])

    def restart(self, between: Callable[[], object] = lambda: None) -> None:
        """Stop the broker cleanly and start it again; ``between`` runs while it is down."""
        assert self.broker.stop() == 0, self.broker.process.describe_end()
        between()
        self.start()

    def kill(self) -> None:
        self.broker.kill()
        for connection in self.connections:
            connection.close()

    # --- the log ------------------------------------------------------------------------------------------------------

    def log(self, position: int = 0) -> str:
        """The log of all its processes, from a byte position on."""
        return b"".join(path.read_bytes() for path in self._log_files())[position:].decode(errors="replace")

    def log_size(self) -> int:
        return sum(path.stat().st_size for path in self._log_files())

    def _log_files(self) -> list[Path]:
        """The log files, the oldest first; a broker that rotates its log numbers the older ones."""
        newest = self.broker.process.log_file
        return [*sorted(newest.parent.glob(f"{newest.name}.*"), reverse=True), newest]

    def logged(self, pattern: str, position: int = 0) -> list[str]:
        """The warnings and errors that match."""
        return [line for line in complaints(self.log(position)) if re.search(pattern, line, re.IGNORECASE)]

    # --- requests of clients ------------------------------------------------------------------------------------------

    def connect(self) -> Connection:
        """A connection that is accounted for: it must get a response, or be closed with a line in the log."""
        connection = Connection(self.port)
        self.connections.append(connection)
        return connection

    def ask(self, frame: bytes, connection: Connection | None = None) -> bytes:
        """Send an honest request on ``connection`` or on a new one. Raises: Refused, OSError."""
        used = connection or Connection(self.port)
        try:
            answer = used.ask(frame)
        finally:
            if connection is None:
                used.close()
        if answer is None:
            raise Refused("the broker closed an honest client's connection")
        return answer

    def create_topic(
        self,
        name: str,
        config: Mapping[str, str] | None = None,
        connection: Connection | None = None,
        timeout_s: float = PATIENCE_S,
    ) -> str:
        """Create a topic of one partition and wait until it has a leader; returns its name."""
        request = codec.request(ApiKey.CREATE_TOPICS)
        topic = request.CreatableTopic
        configs = [topic.CreatableTopicConfig(name=key, value=value) for key, value in (config or {}).items()]
        wanted = topic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=configs)
        message = request(topics=[wanted], timeout_ms=round(timeout_s * 1000), validate_only=False)
        body = bytes(codec.encode_body(message, ApiKey.CREATE_TOPICS, 1))
        answer = self.ask(payloads.frame(ApiKey.CREATE_TOPICS, 1, body), connection)
        (error,) = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(name))
        if error:
            raise Refused(f"CreateTopics of {name}: error {error}")
        wait_for(lambda: self.is_led(name, connection), f"topic {name} has a leader", timeout_s)
        return name

    def is_led(self, topic: str, connection: Connection | None = None) -> bool:
        """Whether the broker's metadata give the topic's only partition a leader."""
        frame = payloads.frame(ApiKey.METADATA, _METADATA_VERSION, struct.pack(">i", 1) + payloads.text(topic))
        answer = codec.decode_response(ApiKey.METADATA, _METADATA_VERSION, self.ask(frame, connection)[4:])
        partitions = answer.topics[0].partitions
        return bool(partitions) and partitions[0].error_code == 0 and partitions[0].leader_id >= 0

    def produce(self, topic: str, records: bytes, connection: Connection | None = None) -> int:
        """Write a batch; returns its base offset. Raises: Refused, OSError."""
        answer = self.ask(payloads.produce(topic, records), connection)
        error, offset = payloads.produce_result(topic, answer)
        if error:
            raise Refused(f"Produce to {topic}: error {error}")
        return offset

    def offset(self, topic: str, timestamp: int) -> int:
        """The offset in the ListOffsets response. Raises: Refused, OSError."""
        error, offset = payloads.listed_offset(topic, self.ask(payloads.list_offsets(topic, timestamp)))
        if error:
            raise Refused(f"ListOffsets of {topic}: error {error}")
        return offset

    def records(self, topic: str) -> dict[int, bytes | None]:
        """All records of a small topic, by offset. Raises: Refused, OSError."""
        start, end = self.offset(topic, EARLIEST), self.offset(topic, LATEST)
        found: dict[int, bytes | None] = {}
        while start < end:
            data = self._fetch(topic, start)
            for position, header in iter_batches(data):
                found |= {record.offset: record.value for record in decode_records(data, position)}
                start = header.next_offset
        return found

    def _fetch(self, topic: str, offset: int) -> bytes:
        head = struct.pack(">iiiib", -1, 0, 0, 1 << 20, 0) + struct.pack(">i", 1) + payloads.text(topic)
        frame = payloads.frame(ApiKey.FETCH, 4, head + struct.pack(">iiqi", 1, 0, offset, 1 << 20))
        answer = self.ask(frame)
        position = 4 + 4 + 4 + len(payloads.text(topic)) + 4
        (error,) = struct.unpack_from(">h", answer, position + 4)
        data = answer[position + _FETCHED_HEAD + 4 :]
        if error or not data:
            raise Refused(f"Fetch of {topic} at {offset}: error {error}, {len(data)} bytes")
        return data


def complaints(log: str) -> list[str]:
    """The lines of a log that are a warning or worse."""
    return [line for line in log.splitlines() if re.search(r" (WARNING|ERROR|CRITICAL) ", line)]
