"""For tests that say how long something may take."""

import gc

import pytest


@pytest.fixture(autouse=True)
def without_the_garbage_of_others() -> None:
    """What other tests of this process left is set aside: to look through it takes longer than what is measured.

    It stays aside, with all that pytest has collected. Otherwise each simulated world that comes later would look
    through it, three times, which takes longer than what is played in it.
    """
    gc.collect()
    gc.freeze()
