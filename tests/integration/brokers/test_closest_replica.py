"""Three brokers in three racks: replicas are spread over the racks, and consumers read from the replica in theirs.

The consumers are librdkafka's. ``bytesout`` in a broker's metrics counts responses to clients, not to followers.
"""

import json
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from kafka_zk.base import types
from kafka_zk.broker.config.kafka_config import RACK_AWARE_SELECTOR
from kafka_zk.cli.main import run
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from tests.integration.brokers.rack_cluster import RACKS, RackCluster
from tests.integration.brokers.test_replication import create, leader, quiet
from tests.integration.processes import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.embedded, pytest.mark.long]

COUNT = 500
VALUE = bytes(1000)
BYTES_OUT = "kafka_server_brokertopicmetrics_bytesout_total"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RackCluster]:
    properties = {"replica.selector.class": RACK_AWARE_SELECTOR, "replica.lag.time.max.ms": "1500"}
    with RackCluster(tmp_path_factory.mktemp("cluster"), properties) as cluster:
        yield cluster


def produce(cluster: RackCluster, topic: str, count: int = COUNT) -> None:
    producer = Producer({**quiet(cluster.bootstrap), "acks": "all", "linger.ms": 5})
    for number in range(count):
        producer.produce(topic, VALUE, key=str(number), partition=0)
    assert producer.flush(30) == 0


def consumer(cluster: RackCluster, topic: str, rack: str) -> Consumer:
    """A consumer in ``rack`` that reads partition 0 from its start."""
    made = Consumer(
        {**quiet(cluster.bootstrap), "group.id": f"in-{rack}", "client.rack": rack, "fetch.wait.max.ms": 100}
    )
    made.assign([TopicPartition(topic, 0, 0)])
    return made


def read(reader: Consumer, count: int) -> list[int]:
    """The offsets of ``count`` records."""
    offsets: list[int] = []

    def has_all() -> bool:
        offsets.extend(each.offset() or 0 for each in reader.consume(count, 0.2) if each.error() is None)
        return len(offsets) >= count

    wait_for(has_all, f"{count} records", 30)
    return offsets


@pytest.fixture
def bytes_out(cluster: RackCluster) -> Callable[[], list[float]]:
    """The bytes that each broker has sent to clients."""
    return lambda: [cluster.metric(broker_id, BYTES_OUT) for broker_id in range(len(RACKS))]


def test_consumers_read_from_the_replica_in_their_rack(
    cluster: RackCluster, bytes_out: Callable[[], list[float]]
) -> None:
    """A consumer in a rack without a broker reads from the leader."""
    create(cluster, "near")
    produce(cluster, "near")
    for rack in (*RACKS, "elsewhere"):
        server = RACKS.index(rack) if rack in RACKS else leader(cluster, "near")
        before = bytes_out()
        reader = consumer(cluster, "near", rack)
        try:
            assert read(reader, COUNT) == list(range(COUNT))
        finally:
            reader.close()
        sent = [after - earlier for after, earlier in zip(bytes_out(), before, strict=True)]
        assert sent[server] > COUNT * len(VALUE), (rack, sent)
        assert all(each < 50_000 for broker, each in enumerate(sent) if broker != server), (rack, sent)


def test_our_own_reader_goes_to_its_rack_too(cluster: RackCluster, bytes_out: Callable[[], list[float]]) -> None:
    create(cluster, "ours")
    produce(cluster, "ours")
    server = (leader(cluster, "ours") + 1) % 3
    before = bytes_out()
    with BlockingReader(bootstrap_servers=cluster.bootstrap, client_rack=RACKS[server]) as reader:
        tp = types.TopicPartition("ours", 0)
        reader.assign({tp: "earliest"})
        found = [record.offset for records in reader.batches({tp: COUNT}) for record in records]
    assert found == list(range(COUNT))
    sent = [after - earlier for after, earlier in zip(bytes_out(), before, strict=True)]
    assert sent[server] > COUNT * len(VALUE)
    assert all(each < 50_000 for broker, each in enumerate(sent) if broker != server)


def test_new_records_reach_those_who_wait_at_a_follower(cluster: RackCluster) -> None:
    create(cluster, "live")
    produce(cluster, "live", 1)
    rack = RACKS[(leader(cluster, "live") + 1) % 3]
    reader = consumer(cluster, "live", rack)
    try:
        assert read(reader, 1) == [0]
        produce(cluster, "live", 20)
        assert read(reader, 20) == list(range(1, 21))
    finally:
        reader.close()


def test_a_consumer_goes_on_when_the_broker_in_its_rack_dies(cluster: RackCluster) -> None:
    create(cluster, "lost")
    produce(cluster, "lost", 10)
    follower = (leader(cluster, "lost") + 1) % 3
    reader = consumer(cluster, "lost", RACKS[follower])
    try:
        assert read(reader, 10) == list(range(10))
        cluster.brokers[follower].kill()
        produce(cluster, "lost", 10)
        assert read(reader, 10) == list(range(10, 20))
    finally:
        reader.close()
        cluster.brokers[follower].start()
        cluster.wait_ready()


def test_two_replicas_lie_in_two_racks(cluster: RackCluster, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """The fourth broker is in the first one's rack and shares no partition with it, neither after creation and growth
    nor in a reassignment plan.
    """

    def command(*arguments: str) -> str:
        assert run([*arguments, "--bootstrap-server", cluster.bootstrap]) == 0
        return capfdbinary.readouterr().out.decode()

    cluster.add_broker()
    command("topics", "create", "--topic", "spread", "--partitions", "8", "--replication-factor", "2")
    admin = AdminClient(quiet(cluster.bootstrap))
    admin.create_partitions([NewPartitions("spread", 12)])["spread"].result(30)
    planned = json.loads(command("reassign", "--generate", "0,1,2,3", "--topic", "spread"))["partitions"]
    [described] = json.loads(command("topics", "describe", "--topic", "spread", "--json"))
    for partitions in (planned, described["partitions"]):
        assert len(partitions) == 12
        assert {0, 3} not in [set(each["replicas"]) for each in partitions]
        assert {each["replicas"][0] for each in partitions} == {0, 1, 2, 3}
