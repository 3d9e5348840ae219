"""One seeded cell of the conformance table for each fault, with the quick clients in turn.

``make conformance`` runs all clients with all faults.
"""

from collections.abc import Iterator

import pytest

from kafka_zk.testing.cluster import Cluster
from tests.conformance.cell import run_cell, running_cluster
from tests.conformance.clients import PYTHON_CLIENTS
from tests.conformance.faults import FAULTS, Fault
from tests.conformance.report import full_report

pytestmark = pytest.mark.peers

SEED = 1


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster() as running:
        yield running


@pytest.mark.parametrize(("place", "fault"), list(enumerate(FAULTS)), ids=[fault.name for fault in FAULTS])
def test_a_client_keeps_its_promises(cluster: Cluster, place: int, fault: Fault) -> None:
    cell = run_cell(cluster, PYTHON_CLIENTS[place % len(PYTHON_CLIENTS)], fault, SEED)
    assert not cell.objections, full_report(cell)
