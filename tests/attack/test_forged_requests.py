"""C: a client sends requests that only brokers may send."""

import struct
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from kazoo.client import KazooClient

from kafka_zk.embedded.ports import free_port
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from tests.attack import payloads
from tests.attack.cluster import PROBED_TOPIC
from tests.attack.connection import Connection
from tests.attack.siege import Siege
from tests.kafka_zk.broker.conftest import leader_and_isr, update_metadata

pytestmark = [pytest.mark.attack, pytest.mark.embedded]

HIGHEST_EPOCH = 2**31 - 1
STALE_CONTROLLER_EPOCH, TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED = 11, 29, 31
EPOCH_UNKNOWN = -1
FLOOD = 200


def stop_replica(topic: str, epoch: int) -> Any:
    request = codec.request(ApiKey.STOP_REPLICA)
    topics = request.StopReplicaTopicState
    state = topics.StopReplicaPartitionState(partition_index=0, leader_epoch=-2, delete_partition=True)
    return request(
        controller_id=0,
        controller_epoch=epoch,
        broker_epoch=EPOCH_UNKNOWN,
        topic_states=[topics(topic_name=topic, partition_states=[state])],
    )


def forged(epoch: int) -> list[bytes]:
    """LeaderAndIsr, UpdateMetadata and StopReplica, as the controller of this epoch would send them."""
    fields = {"controller_epoch": epoch, "leader": 7, "leader_epoch": 1000, "isr": [7], "replicas": [7, 0]}
    requests = [
        (ApiKey.LEADER_AND_ISR, 7, leader_and_isr(PROBED_TOPIC, uuid.UUID(int=0), 1, fields)),
        (ApiKey.UPDATE_METADATA, 8, update_metadata(PROBED_TOPIC, uuid.UUID(int=0), 1, fields)),
        (ApiKey.STOP_REPLICA, 4, stop_replica(PROBED_TOPIC, epoch)),
    ]
    frames = []
    for api_key, version, request in requests:
        request.controller_epoch, request.broker_epoch = epoch, EPOCH_UNKNOWN
        frames.append(payloads.frame(api_key, version, bytes(codec.encode_body(request, api_key, version))))
    return frames


def follower_fetch() -> bytes:
    """A fetch that would make all records of broker 7 count as replicated."""
    head = struct.pack(">iiiib", 7, 0, 0, 1 << 20, 0) + struct.pack(">i", 1) + payloads.text(PROBED_TOPIC)
    return payloads.frame(ApiKey.FETCH, 4, head + struct.pack(">iiqi", 1, 0, 1, 1 << 20))


def error_of(answer: bytes | None) -> int:
    """The error code of a flexible response whose first field it is."""
    assert answer is not None, "the connection was closed"
    return int(struct.unpack_from(">h", answer, 5)[0])


def test_a_controller_epoch_that_was_never_given_out(siege: Siege) -> None:
    victim = siege.victim

    def attack() -> None:
        connection = victim.connect()
        for _ in range(FLOOD):
            codes = {error_of(victim.ask(frame, connection)) for frame in forged(HIGHEST_EPOCH)}
            assert codes == {STALE_CONTROLLER_EPOCH}
        victim.create_topic("after-it")
        victim.produce(PROBED_TOPIC, payloads.batch(b"record"))
        told = victim.logged("no controller with epoch")
        assert len(told) == 1, f"the log has {len(told)} lines: {told[0]}"

    siege("C a forged controller epoch", attack)


def test_brokers_requests_on_a_listener_of_clients(make_siege: Callable[..., Siege]) -> None:
    port = free_port()
    siege = make_siege(client_port=port)
    victim = siege.victim
    offset = victim.produce(PROBED_TOPIC, payloads.batch(b"acknowledged"))
    znodes = KazooClient(victim.zookeeper_connect)
    znodes.start()
    epoch = int(znodes.get("/controller_epoch")[0])
    znodes.stop()
    znodes.close()

    def attack() -> None:
        connection = Connection(port)
        codes = {error_of(connection.ask(frame)) for frame in forged(epoch)}
        assert codes == {CLUSTER_AUTHORIZATION_FAILED}
        fetched = connection.ask(follower_fetch())
        assert fetched is not None
        assert struct.unpack_from(">h", fetched, 20 + len(payloads.text(PROBED_TOPIC)))[0] == TOPIC_AUTHORIZATION_FAILED
        connection.close()
        assert victim.records(PROBED_TOPIC)[offset] == b"acknowledged"

    siege("C brokers' requests where clients listen", attack)
