"""The interface of a client in the matrix: it writes a data set, and reads a partition from an offset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tests.peers.records import Record

#: Generous, because JVMs start slowly on a busy machine; only a broken broker ever needs it.
TIMEOUT_S = 40.0


class ClientFailed(Exception):
    """A client could not write or read the requested records."""


@dataclass(frozen=True)
class Read:
    """Read `count` records of one partition from `offset`, without a group."""

    bootstrap: str
    topic: str
    partition: int
    offset: int
    count: int


@dataclass(frozen=True)
class Write:
    """Write `records` in order to one partition."""

    bootstrap: str
    topic: str
    partition: int
    compression: str
    records: Sequence[Record]


class Consumer(Protocol):
    """Reads records. `view` turns an expected record into the form that this client can show."""

    name: str

    def read(self, what: Read) -> list[Record]: ...

    def view(self, record: Record) -> Record: ...


class Producer(Protocol):
    """Writes records; `dataset` is the data that it can represent."""

    name: str
    dataset: Callable[[], list[Record]]

    def write(self, what: Write) -> None: ...


class ShowsEverything:
    """Mixin of consumers that show keys, values, headers, timestamps and offsets as they are."""

    def view(self, record: Record) -> Record:
        return record
