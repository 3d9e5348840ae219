"""Damaged files, after a clean stop and after a kill: kafka-zk and Apache Kafka 3.9.1 start on copies of all of them.

docs/reference/damaged-files.md has the results. ``tests/storage/test_damaged_files.py`` checks our results without a
broker, and that they are never worse than Kafka's. Kafka 3.9.1 needs minutes, and no change of ours changes its
results, so it starts in ``make soak`` only.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers.logs import damaged_files
from tests.storage.damaged_files import KAFKA, OURS, damages, stored
from tests.storage.made_directory import make

_WHO = [pytest.param(OURS, marks=pytest.mark.peers), pytest.param(KAFKA, marks=pytest.mark.soak)]


@pytest.mark.parametrize("who", _WHO)
def test_brokers_serve_what_the_table_says(who: str, peer_zookeeper: str, tmp_path: Path) -> None:
    served = damaged_files.run(who, list(damages()), make(tmp_path / "made"), peer_zookeeper, tmp_path)
    expected = {name: row[who] for name, row in stored().items()}
    assert {name: outcome for name, outcome in served.items() if outcome != expected[name]} == {}
