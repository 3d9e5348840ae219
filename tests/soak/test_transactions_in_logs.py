"""Random histories of logs with transactions against the model, for many seeds."""

from pathlib import Path

from tests.storage.transaction_model import run_history

HISTORIES = 20  # per seed: 10,000 in a campaign of 500 seeds


def test_random_histories_are_what_the_model_says(tmp_path: Path, campaign_seed: int) -> None:
    for number in range(HISTORIES):
        run_history(tmp_path / str(number), campaign_seed * HISTORIES + number)
