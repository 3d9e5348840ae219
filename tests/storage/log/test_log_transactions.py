"""Transactions in a log: random histories against a model (transaction_model.py). Long runs: tests/soak."""

from pathlib import Path

import pytest

from tests.storage.transaction_model import run_history


@pytest.mark.parametrize("seed", range(60))
def test_a_random_history_is_what_the_model_says(tmp_path: Path, seed: int) -> None:
    run_history(tmp_path, seed)
