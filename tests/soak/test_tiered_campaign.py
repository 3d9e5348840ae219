"""Brokers with remote storage in a folder are killed: every acknowledged record can be read once, from remote or local
logs.

``python -m pytest -m soak tests/soak/test_tiered_campaign.py --rounds 100 --seed 0``
"""

from pathlib import Path

import pytest

from tests.soak.replicated_cluster import OURS, ReplicatedCluster
from tests.soak.replication_rounds import play_campaign
from tests.soak.tiered_rounds import TieredRounds, tiered_properties

pytestmark = [pytest.mark.soak, pytest.mark.embedded]

ROUNDS = 10
"""Maximum number of rounds per seed; the next seed begins with new brokers."""


def test_every_acknowledged_record_can_be_read_once(
    tmp_path: Path, pytestconfig: pytest.Config, process_campaign_seed: int
) -> None:
    play_campaign(
        lambda cluster: TieredRounds(cluster, process_campaign_seed),
        min(ROUNDS, pytestconfig.getoption("rounds")),
        ReplicatedCluster(tmp_path, [OURS] * 3, tiered_properties(tmp_path, TieredRounds.replicas)),
    )
