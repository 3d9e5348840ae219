"""The records that a start serves after each kind of damage to each file of a log directory, after a clean stop and
after a kill.

The expectations are stored in ``damaged_files.json``; tests/peers/logs/test_damaged_files.py compares them with
brokers.
"""

from pathlib import Path

import pytest

from tests.storage.damaged_files import OURS, Damage, Results, complaints, damages, run_here, stored
from tests.storage.damaged_files_page import DOCUMENT, document
from tests.storage.made_directory import Made, make

_DAMAGES = pytest.mark.parametrize("damage", list(damages()), ids=lambda damage: damage.name)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def results() -> Results:
    return stored()


@_DAMAGES
def test_a_start_serves_what_the_table_says(damage: Damage, made: Made, results: Results, tmp_path: Path) -> None:
    assert run_here(damage, made, tmp_path / "logs") == results[damage.name][OURS]


@_DAMAGES
def test_ours_is_never_worse_than_kafka(damage: Damage, results: Results) -> None:
    """Our broker starts if Kafka starts, serves all records that Kafka serves, and serves no record that was not
    produced."""
    assert complaints(damage, results) == []


def test_the_table_is_about_every_kind(results: Results) -> None:
    assert list(results) == [damage.name for damage in damages()]
    assert len(results) >= 54


def test_the_documentation_shows_the_table(results: Results) -> None:
    """``python -m tests.storage.damaged_files_page`` writes it."""
    assert DOCUMENT.read_text() == document(results)
