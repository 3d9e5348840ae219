"""Scripts on an ensemble of three whose leader is killed in the middle: clients see only what the simulator's rules
allow."""

from collections.abc import Iterator

import pytest

from tests.registry.client.broken_scripts import on_ensemble
from tests.soak.zookeeper_ensemble import ZooKeeperEnsemble

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    with ZooKeeperEnsemble(tmp_path_factory.mktemp("ensemble")) as made:
        yield made


def test_a_leader_that_dies_breaks_no_rule(ensemble: ZooKeeperEnsemble, process_campaign_seed: int) -> None:
    said, _ = on_ensemble(ensemble, 1_000_000 + process_campaign_seed)  # the command uses smaller numbers
    assert said is None
