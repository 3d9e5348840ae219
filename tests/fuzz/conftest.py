"""For tests that say how long something may take."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def without_the_garbage_of_others() -> Iterator[None]:
    """What other tests of this process left is set aside: to look through it takes longer than what is measured."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
