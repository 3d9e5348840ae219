"""Awaits operations that were sent together, in one round trip."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

from kafka_zk.registry.client.client import Create, RegistryClient, ZnodeStat
from kafka_zk.registry.client.errors import ConnectionLoss, NoAuth, NodeExists, NoNode, RegistryError, Unimplemented

T = TypeVar("T")
Found = tuple[bytes | None, ZnodeStat]

READS_AT_ONCE = 250
"""Znodes read per request and reactor turn; each takes about 3 µs."""


BYTES_AT_ONCE = 256 * 1024
"""Bytes of paths sent per request. ZooKeeper closes the connection at 1 MB, and an ACL's path may have 32 KB."""


async def outcomes(pending: Iterable[Awaitable[T]]) -> list[T | RegistryError]:
    """All outcomes in order, each a result or a RegistryError."""
    settled: list[T | RegistryError] = []
    for operation in list(pending):  # send all before awaiting the first
        try:
            settled.append(await operation)
        except RegistryError as error:
            settled.append(error)
    return settled


async def results(pending: Iterable[Awaitable[T]]) -> list[T]:
    """All results in order. Raises the first error when all have completed."""
    return [_result(outcome) for outcome in await outcomes(pending)]


async def found(pending: Iterable[Awaitable[T]]) -> list[T | None]:
    """Like ``results``, but None for absent znodes (NoNode)."""
    return [None if isinstance(outcome, NoNode) else _result(outcome) for outcome in await outcomes(pending)]


async def readable(pending: Iterable[Awaitable[T]]) -> list[T | NoAuth | None]:
    """Like ``found``, but NoAuth for znodes that an ACL hides."""
    return [
        outcome if isinstance(outcome, NoAuth) else None if isinstance(outcome, NoNode) else _result(outcome)
        for outcome in await outcomes(pending)
    ]


async def read_all(client: RegistryClient, paths: Iterable[str]) -> list[Found | NoAuth | None]:
    """Data and stat of each path, many per request; None if absent, NoAuth if hidden.

    A server without multi-reads closes the connection at the first one, and then gets single reads.
    """
    answers: list[Found | NoAuth | None] = []
    for window in _windows(paths):
        try:
            if len(window) > 1:
                answers += await client.get_all(window)
                continue
        except Unimplemented:
            pass  # read them one by one
        answers += await _single_reads(client, window)
    return answers


async def _single_reads(client: RegistryClient, paths: Sequence[str]) -> list[Found | NoAuth | None]:
    """Reads again after one ConnectionLoss, because ZooKeeper before 3.6 answers a multi-read and then disconnects."""
    try:
        return await readable(client.get(path) for path in paths)
    except ConnectionLoss:
        await client.connected()
        return await readable(client.get(path) for path in paths)


async def ensure_paths(client: RegistryClient, paths: Iterable[str]) -> None:
    """Create the missing znodes among ``paths``, persistent and with null data, and their parents."""
    wanted: dict[str, None] = {}
    for path in paths:
        parts = path.split("/")
        wanted.update(dict.fromkeys("/".join(parts[: depth + 1]) for depth in range(1, len(parts))))
    for outcome in await outcomes(client.create(path) for path in wanted):
        if not isinstance(outcome, NodeExists):
            _result(outcome)


async def children_of(client: RegistryClient, path: str) -> list[str]:
    """The names of the children; empty if the znode is absent. Raises NoAuth."""
    try:
        return (await client.children(path))[0]
    except NoNode:
        return []


async def get_or_create(client: RegistryClient, path: str, new_data: Callable[[], bytes | None]) -> Found:
    """Data and stat of the znode, which is created with ``new_data()`` if it is absent."""
    while True:
        try:
            return await client.get(path)
        except NoNode:
            with suppress(NodeExists):  # another client has just created it
                await create_with_parents(client, Create(path, new_data()))


async def create_with_parents(client: RegistryClient, operation: Create) -> str:
    """Create a znode and its missing parents. Returns the path. Raises NodeExists."""
    try:
        return await _create(client, operation)
    except NoNode:
        await ensure_paths(client, [operation.path.rpartition("/")[0]])
        return await _create(client, operation)


def _windows(paths: Iterable[str]) -> Iterator[list[str]]:
    window: list[str] = []
    size_bytes = 0
    for path in paths:
        path_bytes = len(path.encode())
        if window and (len(window) == READS_AT_ONCE or size_bytes + path_bytes > BYTES_AT_ONCE):
            yield window
            window, size_bytes = [], 0
        window.append(path)
        size_bytes += path_bytes
    if window:
        yield window


def _create(client: RegistryClient, operation: Create) -> Awaitable[str]:
    return client.create(operation.path, operation.data, ephemeral=operation.ephemeral, sequential=operation.sequential)


def _result(outcome: T | RegistryError) -> T:
    if isinstance(outcome, RegistryError):
        raise outcome
    return outcome
