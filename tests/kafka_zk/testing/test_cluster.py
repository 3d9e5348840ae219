"""``with Cluster() as cluster:`` starts everything that a script needs and leaves nothing behind."""

import shutil
from pathlib import Path

import pytest

from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.embedded.errors import ProcessFailed
from kafka_zk.testing.cluster import Cluster
from tests.integration.processes import wait_for_end

pytestmark = pytest.mark.integration


def test_a_cluster_lives_as_long_as_its_block() -> None:
    with Cluster(brokers=2, properties={"log.retention.hours": "1"}) as cluster:
        cluster.create_topic("orders", partitions=4)
        with BlockingAdmin(bootstrap_servers=cluster.bootstrap) as admin:
            assert len(admin.describe_topics(["orders"])["orders"].available) == 4
        assert "log.retention.hours=1" in cluster.brokers[1].properties_file.read_text().splitlines()
        assert cluster.zookeeper
        pids = [cluster.zookeeper.pid, *(broker.pid for broker in cluster.brokers)]
    wait_for_end(*pids)
    assert not cluster.data_dir.exists()


def test_a_secured_cluster_lets_its_users_in() -> None:
    with Cluster(security=True) as cluster:
        cluster.create_topic("orders")
        assert cluster.security is not None
        with BlockingAdmin(bootstrap_servers=cluster.bootstrap, security=cluster.security.properties()) as admin:
            assert "orders" in admin.describe_cluster().topics
        folder = cluster.data_dir
    assert not folder.exists()


def test_an_authorizer_lets_brokers_and_the_admin_do_everything_and_the_client_nothing() -> None:
    properties = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
    with Cluster(2, security=True, properties=properties) as cluster:
        cluster.create_topic("orders")
        assert cluster.security is not None
        with BlockingAdmin(bootstrap_servers=cluster.bootstrap, security=cluster.security.properties()) as client:
            assert client.list_topics() == []
        with BlockingAdmin(bootstrap_servers=cluster.bootstrap, security=cluster.login) as admin:
            assert list(admin.list_topics()) == ["orders"]


def test_what_is_in_a_given_folder_is_there_for_the_next_cluster(tmp_path: Path) -> None:
    for _ in range(2):
        with Cluster(data=tmp_path / "kept") as cluster, BlockingAdmin(bootstrap_servers=cluster.bootstrap) as admin:
            topics = set(admin.describe_cluster().topics)
            if "orders" not in topics:
                cluster.create_topic("orders")
    assert "orders" in topics


def test_a_cluster_that_does_not_come_up_keeps_the_log_that_the_error_names() -> None:
    cluster = Cluster(properties={"log.retention.hours": "many"})
    with pytest.raises(ProcessFailed, match=r"log\.retention\.hours=many") as failure, cluster:
        pass
    log = cluster.brokers[0].process.log_file
    assert str(log) in str(failure.value) and log.exists()
    shutil.rmtree(cluster.data_dir)


def test_no_cluster_has_no_brokers() -> None:
    with pytest.raises(ValueError, match="a cluster of 0 brokers"):
        Cluster(0)
