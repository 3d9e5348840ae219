"""Kafka's clients of 0.8.2.2 (magic 0) and 0.10.2.2 (magic 1): Scala producer, first Java producer, SimpleConsumer."""

from __future__ import annotations

import base64
from collections.abc import Callable

from tests.peers.clients.base import ClientFailed, Read, Write
from tests.peers.clients.line_process import LineProcess
from tests.peers.jars import MAGIC_0_VERSION
from tests.peers.records import Record, anything, without_headers, without_timestamps

_NULL = "-"
_FETCH_SIZE_BYTES = 4 * 1024 * 1024
_MAGIC_1_SINCE_FETCH = 2


class OldDriver:
    """One JVM with a driver class of tests/peers/java/legacy and the jars of an old Kafka version."""

    def __init__(self, version: str, main_class: str = "OldDriver") -> None:
        self.version = version
        self._process = LineProcess(version, main_class)

    def ask(self, *request: object, records: list[str] | None = None) -> list[list[str]]:
        """The fields of every line of the response. Raises: ClientFailed with the Java exception."""
        kind, _, rest = self._process.ask(["\t".join(map(str, request)), *(records or [])]).partition("\t")
        if kind != "ok":
            raise ClientFailed(f"Java {self.version} {request[0]}: {rest}")
        return [self._process.more().split("\t") for _ in range(int(rest))]

    def close(self) -> None:
        """End the JVM."""
        self._process.close()


def _encode(data: bytes | None) -> str:
    return _NULL if data is None else base64.b64encode(data).decode()


def _decode(text: str) -> bytes | None:
    return None if text == _NULL else base64.b64decode(text)


def old_records() -> list[Record]:
    """The records that magic 1 can represent."""
    return without_headers(anything())


class OldProducer:
    """kafka.javaapi.producer.Producer ("scala") or the KafkaProducer of that version ("java"); one partition only."""

    def __init__(self, driver: OldDriver, api: str, dataset: Callable[[], list[Record]]) -> None:
        self.name = f"{api}-{driver.version}"
        self.dataset = dataset
        self._driver = driver
        self._api = api

    def write(self, what: Write) -> None:
        lines = [
            f"{_encode(record.key)}\t{_encode(record.value)}\t{record.timestamp_ms or -1}" for record in what.records
        ]
        self._driver.ask("produce", self._api, what.bootstrap, what.topic, what.compression, len(lines), records=lines)


def timestamps_unknown() -> list[Record]:
    """The records that magic 0 can represent: a modern reader sees timestamp -1."""
    return [record._replace(timestamp_ms=-1) for record in old_records()]


def timestamps_by_client() -> list[Record]:
    """The records that the Scala producer of 0.10 can write: it sets the timestamps itself."""
    return without_timestamps(old_records())


class OldConsumer:
    """SimpleConsumer with one version of Fetch (0 and 1 read magic 0, 2 and 3 magic 1)."""

    def __init__(self, driver: OldDriver, fetch_version: int) -> None:
        self.name = f"simple-{driver.version}-fetch-{fetch_version}"
        self._driver = driver
        self._fetch_version = fetch_version

    def read(self, what: Read) -> list[Record]:
        version = _NULL if self._driver.version == MAGIC_0_VERSION else self._fetch_version
        where = (what.bootstrap, what.topic, what.partition, what.offset, what.count)
        lines = self._driver.ask("fetch", *where, version, _FETCH_SIZE_BYTES)
        magics = {int(line[2]) for line in lines}
        if magics != {self._magic}:
            raise ClientFailed(f"{self.name} got messages of magic {magics}")
        return [
            Record(_decode(key), _decode(value), (), int(timestamp_ms), int(offset))
            for offset, timestamp_ms, _, key, value in lines
        ]

    @property
    def _magic(self) -> int:
        return int(self._fetch_version >= _MAGIC_1_SINCE_FETCH)

    def view(self, record: Record) -> Record:
        """The record without headers, and without a timestamp in magic 0."""
        return record._replace(headers=(), timestamp_ms=record.timestamp_ms if self._magic else -1)
