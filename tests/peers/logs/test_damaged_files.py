"""Damaged files, after a clean stop and after a kill: kafka-zk and Apache Kafka 3.9.1 start on copies of all of them.

docs/reference/damaged-files.md has the results. ``tests/storage/test_damaged_files.py`` checks them without a broker.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers.logs import damaged_files
from tests.storage.damaged_files import KAFKA, OURS, Outcome, complaints, damages, stored
from tests.storage.made_directory import make

pytestmark = pytest.mark.peers


@pytest.fixture(scope="module")
def served(peer_zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Outcome]]:
    """By who started, then by the name of the row."""
    folder: Path = tmp_path_factory.mktemp("damaged-files")
    made = make(folder / "made")
    rows = list(damages())
    return {who: damaged_files.run(who, rows, made, peer_zookeeper, folder) for who in (OURS, KAFKA)}


@pytest.mark.parametrize("who", [OURS, KAFKA])
def test_brokers_serve_what_the_table_says(served: dict[str, dict[str, Outcome]], who: str) -> None:
    expected = {name: row[who] for name, row in stored().items()}
    different = {name: outcome for name, outcome in served[who].items() if outcome != expected[name]}
    assert different == {}


def test_ours_is_never_worse_than_kafka(served: dict[str, dict[str, Outcome]]) -> None:
    results = {damage.name: {who: rows[damage.name] for who, rows in served.items()} for damage in damages()}
    found = {damage.name: complaints(damage, results) for damage in damages()}
    assert {name: each for name, each in found.items() if each} == {}
