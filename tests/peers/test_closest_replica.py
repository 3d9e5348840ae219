"""Kafka 3.9.1's Java consumer reads from our follower in its rack (client.rack), as the brokers' metrics show."""

from __future__ import annotations

from collections.abc import Iterator

import confluent_kafka
import pytest

from kafka_zk.broker.config.kafka_config import RACK_AWARE_SELECTOR
from tests.integration.brokers.rack_cluster import RACKS, RackCluster
from tests.integration.brokers.test_replication import create, leader
from tests.peers import jars
from tests.peers.targets import KAFKA_ZK, Target
from tests.peers.tool_script import Step, ToolRunner

pytestmark = pytest.mark.peers

_CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_BYTES_OUT = "kafka_server_brokertopicmetrics_bytesout_total"
_COUNT = 300
_SIZE_BYTES = 1000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RackCluster]:
    properties = {"replica.selector.class": RACK_AWARE_SELECTOR}
    with RackCluster(tmp_path_factory.mktemp("cluster"), properties) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def runner(peer_tools: None) -> Iterator[ToolRunner]:
    runner = ToolRunner(jars.ORACLE_VERSION)
    yield runner
    runner.close()


@pytest.mark.parametrize("distance", [0, 1, 2])
def test_a_java_consumer_reads_from_the_replica_in_its_rack(
    cluster: RackCluster, runner: ToolRunner, distance: int
) -> None:
    """In the leader's own rack, it reads from the leader. Otherwise, the leader sends only a few responses, which
    redirect it.
    """
    topic = f"near-{distance}"
    create(cluster, topic)
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 3})
    for number in range(_COUNT):
        producer.produce(topic, f"{number}".rjust(_SIZE_BYTES), partition=0)
    assert producer.flush(30) == 0
    server = (leader(cluster, topic) + distance) % len(RACKS)
    arguments = (
        "--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages", str(_COUNT),
        "--timeout-ms", "30000", "--consumer-property", f"client.rack={RACKS[server]}",
    )  # fmt: skip
    before = [cluster.metric(broker_id, _BYTES_OUT) for broker_id in range(len(RACKS))]
    target = Target(KAFKA_ZK, cluster.zookeeper_connect, [broker.port for broker in cluster.brokers], [])
    said = runner.run(target, Step("consume", _CONSOLE_CONSUMER, arguments))
    sent = [cluster.metric(broker_id, _BYTES_OUT) - earlier for broker_id, earlier in enumerate(before)]
    values = [line.strip() for line in said.lines if line.strip().isdecimal()]
    assert (said.code, values) == (0, [str(number) for number in range(_COUNT)])
    assert sent[server] > _COUNT * _SIZE_BYTES
    assert all(each < 50_000 for broker, each in enumerate(sent) if broker != server), sent
