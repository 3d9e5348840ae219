"""C: znodes and requests with far more replicas or brokers than a cluster has."""

import json
import uuid

import pytest
from kazoo.client import KazooClient

from kafka_zk.embedded.ports import free_port
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.registry.faults import PATH_COUNT, TOLD_COUNT
from tests.attack import payloads
from tests.attack.cluster import PROBED_TOPIC, wait_for
from tests.attack.siege import Siege
from tests.kafka_zk.broker.conftest import leader_and_isr

pytestmark = [pytest.mark.attack, pytest.mark.embedded]

HOSTILE = "/brokers/topics/hostile"
FAKE_BROKERS = 3_000
AT_ONCE = 100


def topic_znode(partitions: dict[str, list[int]]) -> bytes:
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":")).encode()


def test_leader_and_isr_with_50000_replicas(siege: Siege, znodes: KazooClient) -> None:
    victim = siege.victim
    epoch = int(znodes.get("/controller_epoch")[0])
    many = list(range(50_000))
    fields = {"controller_epoch": epoch, "leader": 0, "leader_epoch": 9, "isr": many, "replicas": many}
    request = leader_and_isr("many-replicas", uuid.UUID(int=7), 1, fields)
    request.controller_epoch, request.broker_epoch = epoch, -1
    frame = payloads.frame(ApiKey.LEADER_AND_ISR, 7, bytes(codec.encode_body(request, ApiKey.LEADER_AND_ISR, 7)))

    def attack() -> None:
        assert victim.ask(frame, victim.connect())
        victim.produce(PROBED_TOPIC, payloads.batch(b"record"))

    siege("C LeaderAndIsr with 50,000 replicas", attack)


def test_a_partition_with_100000_replicas(siege: Siege, znodes: KazooClient) -> None:
    victim = siege.victim

    def attack() -> None:
        znodes.create(HOSTILE, topic_znode({"0": list(range(100_000)), "1": [0]}))
        victim.create_topic("beside-it")
        znodes.delete("/controller")
        wait_for(lambda: znodes.exists("/controller"), "there is a controller again", 20.0)
        victim.create_topic("after-the-election")
        told = victim.logged(HOSTILE)
        assert told and all("100000 replicas" in line for line in told)

    siege("C a partition with 100,000 replicas", attack, deadline_s=60)


def test_a_topic_of_900_kb(siege: Siege, znodes: KazooClient) -> None:
    """The topic's partitions have replicas on brokers that do not exist."""
    victim = siege.victim
    partitions = {str(number): [7, 8, 9] for number in range(47_000)}

    def attack() -> None:
        position = victim.log_size()
        znodes.create(HOSTILE, topic_znode(partitions))
        victim.create_topic("beside-it", timeout_s=30.0)
        victim.produce("beside-it", payloads.batch(b"record"))
        znodes.delete("/controller")
        wait_for(lambda: znodes.exists("/controller"), "there is a controller again", 20.0)
        victim.create_topic("after-the-election", timeout_s=30.0)
        complaints = victim.logged("hostile", position)
        assert 1 <= len(complaints) <= 2, "\n".join(complaints[:5])  # each controller logs at most one line

    siege("C a topic znode of 900 KB", attack, deadline_s=60)


def test_the_configuration_of_a_broker_of_900_kb(siege: Siege, znodes: KazooClient) -> None:
    """The configuration has keys that Kafka does not define, which are kept for plugins, and keys that are not allowed
    there.
    """
    victim = siege.victim
    configs = [{f"{prefix}.{number}": "x" for number in range(25_000)} for prefix in ("key.of.a.plugin", "ssl.x")]

    def attack() -> None:
        for config in configs:
            position = victim.log_size()
            znodes.ensure_path("/config/brokers/0")
            znodes.set("/config/brokers/0", json.dumps({"version": 1, "config": config}).encode())
            change = json.dumps({"version": 2, "entity_path": "brokers/0"}).encode()
            znodes.create("/config/changes/config_change_", change, sequence=True)
            victim.create_topic(f"beside-{len(config)}-{position}")
            assert len(victim.logged("configuration", position)) <= TOLD_COUNT + 1

    siege("C a broker's configuration of 900 KB", attack, deadline_s=60)


def test_a_client_that_alters_a_broker_with_40000_keys(siege: Siege) -> None:
    alter = codec.request(ApiKey.ALTER_CONFIGS)
    resource = alter.AlterConfigsResource

    def request(pattern: str) -> bytes:
        configs = [resource.AlterableConfig(name=pattern.format(number), value="x") for number in range(40_000)]
        asked = resource(resource_type=4, resource_name="0", configs=configs)
        body = bytes(codec.encode_body(alter(resources=[asked], validate_only=True), ApiKey.ALTER_CONFIGS, 0))
        return payloads.frame(ApiKey.ALTER_CONFIGS, 0, body)

    requests = [request(pattern) for pattern in ("key.of.a.plugin.{}", "listener.name.l{}.ssl.keystore.location")]

    def attack() -> None:
        for each in requests:
            assert siege.victim.connect().ask(each), "the broker closed the connection"

    siege("C AlterConfigs with 40,000 keys", attack, deadline_s=60)


def test_10000_topics_of_garbage(siege: Siege, znodes: KazooClient) -> None:
    victim = siege.victim

    def attack() -> None:
        for name in ("garbage-{}", "an illegal name {}"):
            for first in range(0, 5_000, AT_ONCE):
                made = [
                    znodes.create_async(f"/brokers/topics/{name.format(number)}", b"garbage")
                    for number in range(first, first + AT_ONCE)
                ]
                for each in made:
                    each.get()
        victim.create_topic("beside-them", timeout_s=30.0)
        told = victim.logged("/brokers/topics/|not named")
        assert PATH_COUNT < len(told) <= PATH_COUNT + 5, f"{len(told)} lines"

    siege("C 10,000 topics of garbage", attack, deadline_s=90)


def test_3000_brokers(siege: Siege, znodes: KazooClient) -> None:
    """3,000 brokers are registered together on a port without a server."""
    victim = siege.victim
    registration = json.loads(znodes.get("/brokers/ids/0")[0])
    port = free_port()
    registration |= {"port": port, "endpoints": [f"PLAINTEXT://127.0.0.1:{port}"]}
    data = json.dumps(registration).encode()

    def attack() -> None:
        for first in range(1, FAKE_BROKERS, AT_ONCE):
            made = [
                znodes.create_async(f"/brokers/ids/{number}", data, ephemeral=True)
                for number in range(first, first + AT_ONCE)
            ]
            for each in made:
                each.get()
        victim.produce(PROBED_TOPIC, payloads.batch(b"record"))

    siege("C 3,000 brokers that are none", attack, deadline_s=90)
