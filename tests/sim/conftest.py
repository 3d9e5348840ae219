"""For worlds, each of which collects all garbage when it begins and when it ends."""

import gc

import pytest


@pytest.fixture(autouse=True, scope="module")
def without_what_others_left() -> None:
    """What tests before left in this process is set aside, or each world would look through it."""
    gc.collect()
    gc.freeze()
