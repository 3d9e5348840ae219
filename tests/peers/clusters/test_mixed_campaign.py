"""The campaign of failures in a cluster of both kinds of brokers, each kind as the controller.

``python -m pytest -m peers tests/peers/clusters/test_mixed_campaign.py --rounds 50 --seed 0``
"""

from pathlib import Path

import pytest

from tests.peers.clusters.mixed_cluster import APACHE_KAFKA, KINDS, mixed_properties
from tests.peers.clusters.mixed_rounds import MixedRounds
from tests.soak.replicated_cluster import OURS, Kind, ReplicatedCluster
from tests.soak.replication_rounds import play_campaign

pytestmark = pytest.mark.soak

ROUNDS = 10
"""The largest number of rounds of one seed: then, the next seed begins with new brokers."""


@pytest.mark.parametrize("controller", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("protocol", ["3.9", "2.6", "3.5"])
def test_nothing_acknowledged_is_lost_whatever_happens(
    peer_tools: None,
    tmp_path: Path,
    pytestconfig: pytest.Config,
    process_campaign_seed: int,
    protocol: str,
    controller: Kind,
) -> None:
    kinds = [OURS, APACHE_KAFKA, OURS, APACHE_KAFKA]
    play_campaign(
        lambda cluster: MixedRounds(cluster, process_campaign_seed, controller),
        min(ROUNDS, pytestconfig.getoption("rounds")),
        ReplicatedCluster(tmp_path, kinds, mixed_properties(protocol)),
    )
