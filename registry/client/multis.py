"""Combines many small multis into few large ones."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from kafka_zk.registry.client.client import Operation, RegistryClient, ZnodeStat, data_size
from kafka_zk.registry.client.errors import BadVersion, MultiFailed, NodeExists, NoNode, RegistryError
from kafka_zk.registry.client.pipeline import outcomes

BATCH_COUNT = 100
BATCH_SIZE_BYTES = 512 * 1024

T = TypeVar("T")
Results = list[str | ZnodeStat | None]


async def settle(client: RegistryClient, multis: Sequence[Sequence[Operation]]) -> list[Results | RegistryError]:
    """The outcome of each multi, in order: its results, MultiFailed if a znode was not as expected, or another error.

    Each multi is atomic, but many are sent in one request. If such a request fails, its multis are sent again
    separately.
    """
    batches = list(in_batches(multis, _size_bytes, BATCH_COUNT))
    answers = await outcomes(client.multi([step for multi in batch for step in multi]) for batch in batches)
    settled: list[Results | RegistryError] = []
    for batch, answer in zip(batches, answers, strict=True):
        if isinstance(answer, MultiFailed) and len(batch) > 1:
            settled.extend(_told(outcome) for outcome in await outcomes(client.multi(multi) for multi in batch))
        elif isinstance(answer, RegistryError):
            settled.extend([_told(answer)] * len(batch))
        else:
            rest = iter(answer)
            settled.extend([next(rest) for _ in multi] for multi in batch)
    return settled


def _size_bytes(multi: Sequence[Operation]) -> int:
    return sum(len(step.path) + data_size(step) for step in multi)


def _told(outcome: Results | RegistryError) -> Results | RegistryError:
    """Replace a MultiFailed by its cause if reading again cannot resolve that cause, for example NoAuth."""
    if isinstance(outcome, MultiFailed) and not isinstance(outcome.cause, NodeExists | NoNode | BadVersion):
        return outcome.cause
    return outcome


def in_batches(items: Iterable[T], size_bytes: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Lists of at most ``most`` items and BATCH_SIZE_BYTES. An item above BATCH_SIZE_BYTES gets a list of its own."""
    batch: list[T] = []
    batch_size = 0
    for item in items:
        size = size_bytes(item)
        if batch and (batch_size + size > BATCH_SIZE_BYTES or len(batch) == most):
            yield batch
            batch, batch_size = [], 0
        batch.append(item)
        batch_size += size
    if batch:
        yield batch
