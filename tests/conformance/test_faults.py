"""The table of faults."""

from kafka_zk.broker.faults.fault import KINDS
from tests.conformance.faults import BY_NAME, FAULTS, Role


def test_thirty_faults_have_names_of_their_own() -> None:
    assert len(FAULTS) == len(BY_NAME) == 30


def test_every_role_is_hit() -> None:
    assert {fault.role for fault in FAULTS} == set(Role)


def test_every_kind_of_fault_is_in_the_table() -> None:
    """The functions that begin faults have the names of the kinds. Interception is not a fault by itself."""
    assert {fault.begin.__qualname__.partition(".")[0] for fault in FAULTS} == set(KINDS) - {"intercept"}
