"""Reading many znodes from a server that supports only one read per request."""

from collections.abc import Sequence
from typing import Any

import pytest

from kafka_zk.registry.client.errors import ConnectionLoss, NoAuth, Unimplemented
from kafka_zk.registry.client.pipeline import BYTES_AT_ONCE, READS_AT_ONCE, Found, read_all
from tests.registry.world import World


def data_of(entry: Found | NoAuth | None) -> bytes | None:
    assert not isinstance(entry, NoAuth)
    return entry and entry[0]


def test_a_server_without_multi_read_is_asked_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """ZooKeeper before 3.6 has no multi-read."""
    world = World(1)
    client = world.clients[0]

    async def create() -> None:
        await client.create("/a", b"1")

    world.scheduler.run(create())
    paths = ["/a", "/b", "/a"]
    whole = world.scheduler.run(read_all(client, paths))
    assert [data_of(entry) for entry in whole] == [b"1", None, b"1"]

    async def refuse(paths: Sequence[str]) -> Any:
        raise Unimplemented(paths[0])

    monkeypatch.setattr(client, "get_all", refuse)
    before = client.counts["get"]
    assert world.scheduler.run(read_all(client, paths)) == whole
    assert client.counts["get"] - before == 3


def test_a_server_that_disconnects_after_a_multi_read_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """ZooKeeper 3.5 responds with an error first and then closes the connection, so the next reads fail."""
    world = World(1)
    client = world.clients[0]
    get, failures = client.get, [ConnectionLoss("/a"), ConnectionLoss("/b")]

    async def refuse(paths: Sequence[str]) -> Any:
        raise Unimplemented(paths[0])

    async def get_after_the_failures(path: str) -> Any:
        if failures:
            raise failures.pop()
        return await get(path)

    monkeypatch.setattr(client, "get_all", refuse)
    monkeypatch.setattr(client, "get", get_after_the_failures)
    assert world.scheduler.run(read_all(client, ["/a", "/b"])) == [None, None]


def test_long_paths_are_asked_for_in_requests_that_the_server_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """With longer requests, ZooKeeper would close the connection at 1 MB, at every attempt."""
    world = World(1)
    client = world.clients[0]
    asked: list[list[str]] = []
    get_all = client.get_all

    def counted(paths: Sequence[str]) -> Any:
        asked.append(list(paths))
        return get_all(paths)

    monkeypatch.setattr(client, "get_all", counted)
    paths = [f"/{number:03}{'ä' * 16_000}" for number in range(100)]
    assert world.scheduler.run(read_all(client, paths)) == [None] * 100
    assert [path for window in asked for path in window] == paths
    assert max(sum(len(path.encode()) for path in window) for window in asked) <= BYTES_AT_ONCE
    assert len(asked) == 100 // (BYTES_AT_ONCE // len(paths[0].encode())) + 1


def test_short_paths_are_asked_for_by_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(1)
    client = world.clients[0]
    before = client.counts["get_all"]
    assert world.scheduler.run(read_all(client, (f"/{number}" for number in range(2 * READS_AT_ONCE)))) == [None] * 500
    assert client.counts["get_all"] - before == 2
