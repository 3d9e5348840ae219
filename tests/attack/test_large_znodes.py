"""C: znodes and requests that name far more replicas of a partition than a cluster has brokers."""

import json
import uuid
from itertools import count

import pytest
from kazoo.client import KazooClient

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from tests.attack import payloads
from tests.attack.cluster import PROBED_TOPIC, Refused, Victim, wait_for
from tests.attack.siege import Siege
from tests.kafka_zk.handlers.conftest import leader_and_isr

pytestmark = [pytest.mark.attack, pytest.mark.embedded]

HOSTILE = "/brokers/topics/hostile"


def topic_znode(partitions: dict[str, list[int]]) -> bytes:
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":")).encode()


def is_created(victim: Victim, topic: str) -> bool:
    """Whether the topic was placed on the broker, and not on one that was there when its replicas were chosen."""
    try:
        victim.create_topic(topic)
    except Refused:
        return False
    return True


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


def test_a_topic_znode_of_900_kb(siege: Siege, znodes: KazooClient) -> None:
    """Nearly as large as ZooKeeper takes: 80,000 partitions on a broker that is not there."""
    victim = siege.victim

    def attack() -> None:
        data = topic_znode({str(number): [7] for number in range(80_000)})
        assert 900_000 < len(data) < 1_000_000
        znodes.create(HOSTILE, data)
        victim.create_topic("beside-it", timeout_s=60.0)
        znodes.delete(HOSTILE, recursive=True)

    siege("C a topic znode of 900 KB", attack, deadline_s=120)


def test_3000_brokers_that_are_none(siege: Siege, znodes: KazooClient) -> None:
    victim, numbers = siege.victim, count()
    fake = {
        "version": 5, "host": "127.0.0.1", "port": 1, "jmx_port": -1, "timestamp": "1", "features": {},
        "endpoints": ["PLAINTEXT://127.0.0.1:1"], "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
    }  # fmt: skip

    def attack() -> None:
        data = json.dumps(fake).encode()
        for creation in [znodes.create_async(f"/brokers/ids/{number}", data) for number in range(1000, 4000)]:
            creation.get(30)
        victim.produce(PROBED_TOPIC, payloads.batch(b"record"))
        for deletion in [znodes.delete_async(f"/brokers/ids/{number}") for number in range(1000, 4000)]:
            deletion.get(30)
        wait_for(lambda: is_created(victim, f"after-them-{next(numbers)}"), "a topic is on a broker", 30.0)
        assert len(victim.logged("UPDATE_METADATA does not reach")) == 20
        assert len(victim.logged("do not reach more than 20 brokers")) == 1

    siege("C 3,000 fake brokers", attack, deadline_s=150)
