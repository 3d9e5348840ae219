"""A fixture for worlds, which collect all garbage when they begin and end."""

import gc

import pytest


@pytest.fixture(autouse=True, scope="module")
def without_what_others_left() -> None:
    """Exempt the objects that earlier tests left in this process, which each world's collections would otherwise
    traverse.
    """
    gc.collect()
    gc.freeze()
