"""Kafka's Java clients of one version: through our driver (KafkaProducer, KafkaConsumer) and as console tools."""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.peers import java
from tests.peers.clients.base import TIMEOUT_S, ClientFailed, Read, ShowsEverything, Write
from tests.peers.clients.line_process import LineProcess
from tests.peers.records import Header, Record, anything, lines

_NULL = "\x01null\x01"
_COLUMN_END = b"\x1f--column--\x1f"
_HEADER_END = b"\x1f--header--\x1f"
_LINE_END = b"\x1e--record--\x1e"


class JavaDriver:
    """One JVM that answers many small requests (tests/peers/java/PeerDriver.java)."""

    def __init__(self, version: str) -> None:
        self.version = version
        self._process = LineProcess(version, "PeerDriver")

    def ask(self, op: str, bootstrap: str, **request: Any) -> dict[str, Any]:
        """Send one request, and return its response; `error` in the response is the Java exception.

        Raises: ClientFailed if the JVM does not respond.
        """
        line = self._process.ask([json.dumps({"op": op, "bootstrap": bootstrap, **request})])
        answer: dict[str, Any] = json.loads(line)
        return answer

    def result(self, op: str, bootstrap: str, **request: Any) -> dict[str, Any]:
        """Like `ask`. Raises: ClientFailed with the Java exception if there was one."""
        answer = self.ask(op, bootstrap, **request)
        if "error" in answer:
            raise ClientFailed(f"Java {self.version} {op}: {answer['error']}")
        return answer

    def close(self) -> None:
        """End the JVM."""
        self._process.close()


def _encode(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _decode(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


class JavaProducer:
    """KafkaProducer with its defaults (idempotent, acks=all)."""

    dataset = staticmethod(anything)

    def __init__(self, driver: JavaDriver) -> None:
        self.name = f"java-{driver.version}"
        self._driver = driver

    def write(self, what: Write) -> None:
        records = [
            {
                "partition": what.partition,
                "timestamp_ms": record.timestamp_ms,
                "key": _encode(record.key),
                "value": _encode(record.value),
                "headers": [[name, _encode(value)] for name, value in record.headers],
            }
            for record in what.records
        ]
        config = {"compression.type": what.compression, "linger.ms": "20"}
        self._driver.result("produce", what.bootstrap, topic=what.topic, config=config, records=records)


class JavaConsumer(ShowsEverything):
    """KafkaConsumer: assign and seek."""

    def __init__(self, driver: JavaDriver) -> None:
        self.name = f"java-{driver.version}"
        self._driver = driver

    def read(self, what: Read) -> list[Record]:
        answer = self._driver.result(
            "consume",
            what.bootstrap,
            topic=what.topic,
            partition=what.partition,
            offset=what.offset,
            count=what.count,
            timeout_ms=int(TIMEOUT_S * 1000),
            config={"auto.offset.reset": "none"},
        )
        return [
            Record(
                _decode(record["key"]),
                _decode(record["value"]),
                tuple((name, _decode(value)) for name, value in record["headers"]),
                record["timestamp_ms"],
                record["offset"],
            )
            for record in answer["records"]
        ]


class ConsoleProducer:
    """kafka-console-producer; only for topics of one partition, because it cannot choose a partition."""

    dataset = staticmethod(lines)

    def __init__(self, version: str) -> None:
        self.name = f"console-{version}"
        self._version = version
        old = version.startswith("3.")
        self._main_class = "kafka.tools.ConsoleProducer" if old else "org.apache.kafka.tools.ConsoleProducer"
        self._property = "--property" if old else "--reader-property"

    def write(self, what: Write) -> None:
        reader = {"parse.key": "true", "parse.headers": "true", "null.marker": _NULL}
        properties = [part for key, value in reader.items() for part in (self._property, f"{key}={value}")]
        target = ["--bootstrap-server", what.bootstrap, "--topic", what.topic]
        patience = ["--request-timeout-ms", "30000"]
        text = "".join(map(self._line, what.records)).encode()
        done = java.run_tool(
            self._version,
            self._main_class,
            [*target, "--compression-codec", what.compression, *patience, *properties],
            stdin=text,
        )
        if "ERROR" in done.stderr:
            raise ClientFailed(done.stderr)

    @staticmethod
    def _line(record: Record) -> str:
        """Headers, key and value, separated by tabs; the null marker replaces missing headers."""

        def text(data: bytes | None) -> str:
            return _NULL if data is None else data.decode()

        headers = ",".join(f"{name}:{text(value)}" for name, value in record.headers) or _NULL
        return f"{headers}\t{text(record.key)}\t{text(record.value)}\n"


class ConsoleConsumer(ShowsEverything):
    """kafka-console-consumer --partition --offset, with separators that no data set contains."""

    def __init__(self, version: str) -> None:
        self.name = f"console-{version}"
        self._version = version
        self._property = "--property" if version.startswith("3.") else "--formatter-property"

    def read(self, what: Read) -> list[Record]:
        formatter = {
            **{f"print.{part}": "true" for part in ("timestamp", "offset", "headers", "key")},
            "key.separator": _COLUMN_END.decode(),
            "headers.separator": _HEADER_END.decode(),
            "line.separator": _LINE_END.decode(),
            "null.literal": _NULL,
        }
        properties = [part for key, value in formatter.items() for part in (self._property, f"{key}={value}")]
        target = ["--bootstrap-server", what.bootstrap, "--topic", what.topic]
        where = ["--partition", str(what.partition), "--offset", str(what.offset)]
        limits = ["--max-messages", str(what.count), "--timeout-ms", str(int(TIMEOUT_S * 1000))]
        done = java.run_tool(
            self._version, "org.apache.kafka.tools.consumer.ConsoleConsumer", [*target, *where, *limits, *properties]
        )
        return [self._record(line) for line in done.stdout.split(_LINE_END)[:-1]]

    @staticmethod
    def _record(line: bytes) -> Record:
        timestamp, offset, headers, key, value = line.split(_COLUMN_END)

        def data(shown: bytes) -> bytes | None:
            return None if shown == _NULL.encode() else shown

        def header(shown: bytes) -> Header:
            name, _, content = shown.partition(b":")
            return name.decode(), data(content)

        shown_headers = () if headers == b"NO_HEADERS" else tuple(map(header, headers.split(_HEADER_END)))
        timestamp_ms = int(timestamp.partition(b":")[2])
        return Record(data(key), data(value), shown_headers, timestamp_ms, int(offset.partition(b":")[2]))
