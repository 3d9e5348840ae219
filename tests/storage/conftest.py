"""Fixtures of the tests of storage."""

from collections.abc import Iterator

import pytest

from kafka_zk.storage.files import files
from tests.storage.faults import FaultyFiles


@pytest.fixture
def faults() -> Iterator[FaultyFiles]:
    """The files of this test: what it lets fail, and how often what was done."""
    system = FaultyFiles()
    with files.use(system):
        yield system
