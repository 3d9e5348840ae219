"""Fixtures of the network tests."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kafka_zk.network.harness import CountedSlice, LocalReactor


@pytest.fixture
def reactor() -> Iterator[LocalReactor]:
    reactor = LocalReactor()
    yield reactor
    reactor.close()


@pytest.fixture
def make_slice(tmp_path: Path) -> Iterator[Callable[..., CountedSlice]]:
    """Makes slices of files with known bytes; afterwards nobody may hold one."""
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
