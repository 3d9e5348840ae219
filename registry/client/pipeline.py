"""Awaiting many operations that were sent together: one round trip, not one after another."""

from collections.abc import Awaitable, Iterable, Iterator, Sequence
from typing import TypeVar

from kafka_zk.registry.client.client import Create, RegistryClient, ZnodeStat
from kafka_zk.registry.client.errors import NoAuth, NodeExists, NoNode, RegistryError, Unimplemented

T = TypeVar("T")
Found = tuple[bytes | None, ZnodeStat]

READS_AT_ONCE = 250
"""How many znodes are read by one request, and in one turn of the reactor: about 3 µs each."""


async def outcomes(pending: Iterable[Awaitable[T]]) -> list[T | RegistryError]:
    """All outcomes in order: each a result, or the RegistryError that it failed with."""
    settled: list[T | RegistryError] = []
    for operation in list(pending):  # all are sent before the first is awaited
        try:
            settled.append(await operation)
        except RegistryError as error:
            settled.append(error)
    return settled


async def results(pending: Iterable[Awaitable[T]]) -> list[T]:
    """All results in order. Raises the first failure, after all have come back."""
    return [_result(outcome) for outcome in await outcomes(pending)]


async def found(pending: Iterable[Awaitable[T]]) -> list[T | None]:
    """As ``results``, with None in the place of what is not there (NoNode)."""
    return [None if isinstance(outcome, NoNode) else _result(outcome) for outcome in await outcomes(pending)]


async def readable(pending: Iterable[Awaitable[T]]) -> list[T | NoAuth | None]:
    """As ``found``, with NoAuth in the place of what an ACL hides: one znode must not hide the others."""
    return [
        outcome if isinstance(outcome, NoAuth) else None if isinstance(outcome, NoNode) else _result(outcome)
        for outcome in await outcomes(pending)
    ]


async def read_all(client: RegistryClient, paths: Iterable[str]) -> list[Found | NoAuth | None]:
    """Data and stat of each path, READS_AT_ONCE to a request. None where nothing is, NoAuth for what an ACL hides.

    From a server that does not know such requests one by one; the first of them costs it the connection. So whoever
    asks must ask again after a ConnectionLoss.
    """
    answers: list[Found | NoAuth | None] = []
    for window in _windows(list(paths)):
        try:
            if len(window) > 1:
                answers += await client.get_all(window)
                continue
        except Unimplemented:
            pass  # as if there were one only
        answers += await readable(client.get(path) for path in window)
    return answers


async def ensure_paths(client: RegistryClient, paths: Iterable[str]) -> None:
    """Create the given persistent znodes and their parents, with null data, where they are absent."""
    wanted: dict[str, None] = {}
    for path in paths:
        parts = path.split("/")
        wanted.update(dict.fromkeys("/".join(parts[: depth + 1]) for depth in range(1, len(parts))))
    for outcome in await outcomes(client.create(path) for path in wanted):
        if not isinstance(outcome, NodeExists):
            _result(outcome)


async def create_with_parents(client: RegistryClient, operation: Create) -> str:
    """Create one znode, making its parents if they are absent. Returns the path made. Raises NodeExists."""
    try:
        return await _create(client, operation)
    except NoNode:
        await ensure_paths(client, [operation.path.rpartition("/")[0]])
        return await _create(client, operation)


def _windows(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(paths), READS_AT_ONCE):
        yield paths[start : start + READS_AT_ONCE]


def _create(client: RegistryClient, operation: Create) -> Awaitable[str]:
    return client.create(operation.path, operation.data, ephemeral=operation.ephemeral, sequential=operation.sequential)


def _result(outcome: T | RegistryError) -> T:
    if isinstance(outcome, RegistryError):
        raise outcome
    return outcome
