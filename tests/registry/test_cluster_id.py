"""The error of a broker that is connected to another cluster's ZooKeeper."""

from kafka_zk.registry import cluster_id
from kafka_zk.registry.znodes import cluster_id as znodes


def test_its_own_cluster_is_no_complaint() -> None:
    assert cluster_id.mismatch("mine", znodes.encode("mine")) is None
    assert cluster_id.mismatch("mine", b'{"id": "mine", "version": "1"}') is None, "an id as users may write it"


def test_anything_else_is_told_with_what_to_do() -> None:
    for data, found in ((None, "no cluster id"), (znodes.encode("other"), "another cluster's id, other")):
        said = cluster_id.mismatch("mine", data)
        assert said is not None
        assert f"ZooKeeper has {found}, and this broker is of cluster mine" in said
        assert "Restore ZooKeeper's data" in said
    damaged = cluster_id.mismatch("mine", b"garbage")
    assert damaged is not None and "/cluster/id" in damaged
