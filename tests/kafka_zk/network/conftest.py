"""Fixtures of the network tests."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from twisted.logger import ILogObserver, globalLogPublisher

from tests.kafka_zk.network.harness import CountedSlice, LocalReactor
from tests.kafka_zk.network.server import Server


@pytest.fixture
def reactor() -> Iterator[LocalReactor]:
    reactor = LocalReactor()
    yield reactor
    reactor.close()


@pytest.fixture
def make_slice(tmp_path: Path) -> Iterator[Callable[..., CountedSlice]]:
    """Makes slices of files with known bytes; at the end of the test, each must have been released."""
    made: list[CountedSlice] = []

    def make(size_bytes: int, position: int = 0, in_active_segment: bool = True) -> CountedSlice:
        path = tmp_path / f"{len(made)}.log"
        path.write_bytes(bytes(range(256)) * ((position + size_bytes) // 256 + 1))
        made.append(CountedSlice(path, position, size_bytes, in_active_segment))
        return made[-1]

    yield make
    for file_slice in made:
        file_slice.close()
    assert [file_slice.references for file_slice in made] == [0] * len(made)


@pytest.fixture
def make_server(reactor: LocalReactor) -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def make(**options: Any) -> Server:
        servers.append(Server(reactor, **options))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


@pytest.fixture
def server(make_server: Callable[..., Server]) -> Server:
    return make_server()


@pytest.fixture
def warnings() -> Iterator[list[str]]:
    """The messages of log events of level warn and above."""
    seen: list[str] = []

    def observe(event: Any) -> None:
        if event["log_level"].name in ("warn", "error", "critical"):
            seen.append((event.get("log_format") or "").format(**event))

    globalLogPublisher.addObserver(cast(ILogObserver, observe))
    yield seen
    globalLogPublisher.removeObserver(cast(ILogObserver, observe))
