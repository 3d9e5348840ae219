"""examples/rebalance.ipynb draws the owner of each partition over time."""

from pathlib import Path

import pytest

from tests.notebooks import executed

pytestmark = pytest.mark.integration


def test_it_draws_a_rebalance(tmp_path: Path) -> None:
    outputs = executed("rebalance.ipynb", tmp_path)
    tables = [output["data"]["text/plain"] for output in outputs if "text/plain" in output.get("data", {})]
    assert any("readers_ben came" in table and "WatchFired" in table for table in tables)
    assert any("image/png" in output.get("data", {}) for output in outputs)
