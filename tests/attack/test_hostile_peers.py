"""C: a broker in the cluster whose responses announce 2 GB."""

import json
import subprocess
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from kafka_zk.embedded.probe import ask_broker
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from tests.attack import payloads
from tests.attack.cluster import PROBED_TOPIC, Victim, wait_for
from tests.attack.hostile_peer import ANNOUNCED_BYTES, HostilePeer
from tests.attack.siege import Siege
from tests.integration.processes import COMMAND, ENVIRON, TIMEOUT_S

pytestmark = [pytest.mark.attack, pytest.mark.embedded]

PEER = 7
SEEN_WITHIN_S = 20.0
ROUNDS = 3
TOOL_MB = 1000
"""Address space: a command takes 300 MB of it, and has no room for 2 GB."""


@pytest.fixture
def peer(siege: Siege) -> Iterator[HostilePeer]:
    peer = HostilePeer(siege.victim.port)
    yield peer
    peer.close()


def register(znodes: KazooClient, port: int) -> None:
    """Register a broker like the victim, with another id and port."""
    registration = json.loads(znodes.get("/brokers/ids/0")[0])
    registration |= {"port": port, "endpoints": [f"PLAINTEXT://127.0.0.1:{port}"]}
    znodes.create(f"/brokers/ids/{PEER}", json.dumps(registration).encode(), ephemeral=True)


def create_led_by_peer(victim: Victim, topic: str) -> None:
    """Create a topic that the victim follows, so that it fetches from the peer."""
    create = codec.request(ApiKey.CREATE_TOPICS)
    wanted = create.CreatableTopic
    assignment = wanted.CreatableReplicaAssignment(partition_index=0, broker_ids=[PEER, 0])
    topics = [wanted(name=topic, num_partitions=-1, replication_factor=-1, assignments=[assignment], configs=[])]
    message = create(topics=topics, timeout_ms=0, validate_only=False)
    victim.ask(payloads.frame(ApiKey.CREATE_TOPICS, 1, bytes(codec.encode_body(message, ApiKey.CREATE_TOPICS, 1))))


def brokers_known_to(victim: Victim) -> frozenset[int]:
    view = ask_broker("127.0.0.1", victim.port)
    assert view is not None, "the victim does not respond"
    return view.broker_ids


def topics_of(port: int) -> "subprocess.CompletedProcess[str]":
    """Run ``kafka-zk topics list`` without memory for such a response."""
    limited = ["/bin/sh", "-c", f'ulimit -v {TOOL_MB * 1024}; exec "$@"', "sh", *COMMAND]
    command = [*limited, "topics", "list", "--bootstrap-server", f"127.0.0.1:{port}"]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRON, timeout=TIMEOUT_S, check=False)


def test_responses_of_2_gb(siege: Siege, znodes: KazooClient, peer: HostilePeer) -> None:
    """The responses answer the controller's requests, a follower's fetches and a command."""
    victim = siege.victim

    def attack() -> None:
        register(znodes, peer.port)
        wait_for(lambda: peer.announced[ApiKey.UPDATE_METADATA] >= ROUNDS, "the controller asks it", SEEN_WITHIN_S)
        create_led_by_peer(victim, "followed")
        wait_for(lambda: peer.announced[ApiKey.FETCH] >= ROUNDS, "a follower asks it", SEEN_WITHIN_S)
        victim.produce(PROBED_TOPIC, payloads.batch(b"record"))
        listed = topics_of(peer.port)
        assert listed.returncode != 0 and peer.announced[ApiKey.METADATA], "the command did not send it a request"
        assert "Traceback" not in listed.stderr and "MemoryError" not in listed.stderr, listed.stderr
        znodes.delete(f"/brokers/ids/{PEER}")
        # Until then, it could get the replicas of a new topic.
        wait_for(lambda: PEER not in brokers_known_to(victim), "it is gone", SEEN_WITHIN_S)
        victim.create_topic("after-it", timeout_s=SEEN_WITHIN_S)
        told = victim.logged(str(ANNOUNCED_BYTES))
        assert len(told) == 2, f"the controller and the follower log it once each, not {told}"

    siege("C a broker that announces 2 GB", attack, deadline_s=120)
