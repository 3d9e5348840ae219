"""Tests of the service on a real cluster. The installed package provides the fixtures; no conftest is needed.

    pytest                 servers as processes: no Docker
    pytest --containers    the same servers in containers
"""

from orders import Orders


def test_what_is_ordered_is_added_up(kafka_zk_cluster, make_topic):  # type: ignore[no-untyped-def]
    orders = Orders(kafka_zk_cluster.bootstrap, make_topic(partitions=4))
    for article, count in [("tea", 2), ("coffee", 1), ("tea", 3)]:
        orders.place(article, count)
    assert orders.totals() == {"tea": 5, "coffee": 1}
    orders.close()


def test_orders_outlive_a_crash(make_cluster, make_topic):  # type: ignore[no-untyped-def]
    cluster = make_cluster(broker_count=1)
    orders = Orders(cluster.bootstrap, make_topic(partitions=1, cluster=cluster))
    orders.place("tea", 2)
    cluster.brokers[0].kill()
    cluster.restart_broker(0)
    orders.place("tea", 3)
    assert orders.totals() == {"tea": 5}
    orders.close()


def test_orders_go_on_while_zookeeper_restarts(make_zookeeper, make_cluster, make_topic):  # type: ignore[no-untyped-def]
    zookeeper = make_zookeeper("tls")
    cluster = make_cluster(broker_count=1, zookeeper=zookeeper)
    orders = Orders(cluster.bootstrap, make_topic(cluster=cluster))
    zookeeper.restart()
    orders.place("coffee", 1)
    assert orders.totals() == {"coffee": 1}
    orders.close()
