"""Fixtures of the tests of storage."""

from collections.abc import Iterator

import pytest

from kafka_zk.storage.files import files
from tests.storage.faults import FaultyFiles


@pytest.fixture
def faults() -> Iterator[FaultyFiles]:
    """The file system of this test: it injects failures and counts operations."""
    system = FaultyFiles()
    with files.use(system):
        yield system
