"""The in-memory ZooKeeper and the real one give the same responses, stats and watch events to the same operations."""

import pytest

from kafka_zk.testing.zookeeper import Chroot
from tests.registry.client.zookeeper_scripts import differences

pytestmark = pytest.mark.integration

SCRIPTS = 10
LONG = 300


def test_the_same_scripts_have_the_same_outcomes(zookeeper: Chroot, campaign_seed: int) -> None:
    """Each response and the order of all watch events are compared."""
    first = 1_000_000 + campaign_seed * SCRIPTS  # scripts with smaller numbers belong to the command
    found = differences(zookeeper.connect_string, range(first, first + SCRIPTS))
    assert not found, "\n".join(found[:3])


def test_a_long_script_has_the_same_outcome(zookeeper: Chroot, campaign_seed: int) -> None:
    """300 operations of two clients on one small tree."""
    assert not differences(zookeeper.connect_string, [2_000_000 + campaign_seed], LONG)
