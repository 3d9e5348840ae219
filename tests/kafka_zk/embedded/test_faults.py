"""The effect of each named fault on three other clients: confluent-kafka, kafka-python, aiokafka."""

import http.client
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.embedded.errors import EmbeddedError
from kafka_zk.embedded.fault_client import FaultClient, FaultRefused
from kafka_zk.embedded.faults import NeverFired
from kafka_zk.embedded.interception import DROP, Exchange
from kafka_zk.embedded.ports import free_port
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from kafka_zk.testing.backend import Backend
from kafka_zk.testing.clients import create_topic
from kafka_zk.testing.zookeeper import Chroot
from tests.fault_clients import CLIENTS, Client, new_name
from tests.kafka_zk.testing.runs import run_pytest

pytestmark = pytest.mark.integration
each_client = pytest.mark.parametrize("client", CLIENTS, ids=[client.name for client in CLIENTS])

WAIT_MS = 300
CONNECT_TIMEOUT_S = 5
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def cluster(
    kafka_zk_backend: Backend, zookeeper_server: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedCluster]:
    """Three brokers that all tests share, because every fault ends."""
    keys = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "5"}
    where = Chroot(zookeeper_server, f"/{new_name()}").connect_string
    with kafka_zk_backend.cluster(tmp_path_factory.mktemp("faults"), 3, where, keys) as running:
        yield running


@pytest.fixture
def topic(cluster: EmbeddedCluster) -> str:
    name = new_name()
    create_topic(cluster.bootstrap, name, 1, {})
    return name


def leader_of(cluster: EmbeddedCluster, topic: str) -> int:
    with BlockingAdmin(bootstrap_servers=cluster.bootstrap) as admin:
        [partition] = admin.describe_topics([topic])[topic].partitions
    return partition.leader


@each_client
def test_an_error_reaches_only_the_client_that_the_fault_names(
    cluster: EmbeddedCluster, topic: str, client: Client
) -> None:
    with client.producer(cluster.bootstrap, "hit") as hit, client.producer(cluster.bootstrap, "spared") as spared:
        with cluster.faults.error("Produce", "POLICY_VIOLATION", topic=topic, client_id="hit") as fault:
            assert spared.send(topic, b"a").offset == 0
            with pytest.raises(Exception, match=r"(?i)policy"):
                hit.send(topic, b"b")
            assert fault.fired == 1
        assert hit.send(topic, b"c").offset == 1


@each_client
def test_a_fetch_error_is_one_of_the_partition(cluster: EmbeddedCluster, topic: str, client: Client) -> None:
    """OFFSET_OUT_OF_RANGE makes the consumer start from the beginning."""
    with (
        client.producer(cluster.bootstrap, "p") as producer,
        client.consumer(cluster.bootstrap, topic, new_name()) as consumer,
    ):
        producer.send(topic, b"first")
        assert consumer.next_value() == b"first"
        with cluster.faults.error("Fetch", "OFFSET_OUT_OF_RANGE", topic=topic) as fault:
            producer.send(topic, b"second")
            assert b"first" in (consumer.next_value(), consumer.next_value())
            assert fault.fired == 1


@each_client
def test_a_dropped_answer_doubles_the_record_of_a_producer_that_is_not_idempotent(
    cluster: EmbeddedCluster, topic: str, client: Client
) -> None:
    with (
        client.producer(cluster.bootstrap, "p") as producer,
        cluster.faults.drop_answer("Produce", topic=topic) as fault,
    ):
        assert producer.send(topic, b"twice").offset == 1
        assert fault.fired == 1


@each_client
def test_the_nth_answer_is_dropped_and_an_idempotent_producer_does_not_mind(
    cluster: EmbeddedCluster, topic: str, client: Client
) -> None:
    with client.producer(cluster.bootstrap, "p", idempotent=True) as producer:
        with cluster.faults.drop_answer("Produce", nth=2, topic=topic) as fault:
            producer.send(topic, b"once")
            assert fault.fired == 0
            producer.send(topic, b"once, too")
            assert fault.fired == 1
        assert producer.send(topic, b"last").offset == 2


@each_client
def test_a_throttled_client_waits(cluster: EmbeddedCluster, topic: str, client: Client) -> None:
    with client.producer(cluster.bootstrap, "p") as producer:
        producer.send(topic, b"a")
        with cluster.faults.throttle(WAIT_MS, topic=topic) as fault:
            producer.send(topic, b"b")
            began_s = time.monotonic()
            producer.send(topic, b"c")
            assert time.monotonic() - began_s > WAIT_MS / 1000 * 0.8
            assert fault.fired == 2


@each_client
def test_a_slow_fetch_brings_records_late(cluster: EmbeddedCluster, topic: str, client: Client) -> None:
    with client.producer(cluster.bootstrap, "p") as producer:
        producer.send(topic, b"late")
    with cluster.faults.slow_fetch(WAIT_MS, topic=topic):
        began_s = time.monotonic()
        with client.consumer(cluster.bootstrap, topic, new_name()) as consumer:
            assert consumer.next_value() == b"late"
        assert time.monotonic() - began_s > WAIT_MS / 1000


@each_client
def test_a_group_goes_on_after_its_coordinator_has_moved(cluster: EmbeddedCluster, topic: str, client: Client) -> None:
    group = new_name()
    with client.producer(cluster.bootstrap, "p") as producer:
        with client.consumer(cluster.bootstrap, topic, group) as consumer:
            producer.send(topic, b"a")
            assert consumer.next_value() == b"a"
            consumer.commit()
            before = cluster.coordinator_id(group)
            with cluster.faults.coordinator_moves(group) as fault:
                assert cluster.coordinator_id(group) not in (before, -1)
                producer.send(topic, b"b")
                assert consumer.next_value() == b"b"
                consumer.commit()
                assert fault.fired == 1
        producer.send(topic, b"c")
        with client.consumer(cluster.bootstrap, topic, group) as consumer:
            assert consumer.next_value() == b"c"


@each_client
def test_producers_and_consumers_follow_a_leader_that_moves(
    cluster: EmbeddedCluster, topic: str, client: Client
) -> None:
    with (
        client.producer(cluster.bootstrap, "p") as producer,
        client.consumer(cluster.bootstrap, topic, new_name()) as consumer,
    ):
        producer.send(topic, b"a")
        assert consumer.next_value() == b"a"
        before = leader_of(cluster, topic)
        with cluster.faults.leader_moves(topic):
            assert producer.send(topic, b"b").offset == 1
            assert consumer.next_value() == b"b"
        assert leader_of(cluster, topic) != before


@each_client
def test_a_commit_amid_a_rebalance_fails_and_the_next_one_succeeds(
    cluster: EmbeddedCluster, topic: str, client: Client
) -> None:
    group = new_name()
    with (
        client.producer(cluster.bootstrap, "p") as producer,
        client.consumer(cluster.bootstrap, topic, group) as consumer,
    ):
        producer.send(topic, b"a")
        assert consumer.next_value() == b"a"
        refused = pytest.raises(Exception, match=r"(?i)UnknownMemberId|UNKNOWN_MEMBER|CommitFailed|rebalance")
        with cluster.faults.rebalance_amid_commit(group), refused:
            consumer.commit()
        assert consumer.next_value() == b"a"
        consumer.commit()


@each_client
def test_a_fenced_producer_cannot_commit(cluster: EmbeddedCluster, topic: str, client: Client) -> None:
    name = new_name()
    with client.producer(cluster.bootstrap, "p", transactional_id=name) as producer:
        producer.begin()
        producer.send(topic, b"a")
        with cluster.faults.fence(name), pytest.raises(Exception, match=r"(?i)fenced|epoch"):
            producer.commit()


@each_client
def test_a_gap_in_a_producers_sequence_is_an_error(cluster: EmbeddedCluster, topic: str, client: Client) -> None:
    with client.producer(cluster.bootstrap, "p", idempotent=True) as producer:
        producer.send(topic, b"a")
        refused = pytest.raises(Exception, match=r"(?i)out.?of.?order.?sequence")
        with cluster.faults.out_of_order_sequence(topic=topic), refused:
            producer.send(topic, b"b")


@each_client
def test_a_client_does_not_notice_that_a_brokers_session_expired(
    cluster: EmbeddedCluster, topic: str, client: Client
) -> None:
    with client.producer(cluster.bootstrap, "p") as producer:
        producer.send(topic, b"a")
        with cluster.faults.expire_session(leader_of(cluster, topic)) as fault:
            assert producer.send(topic, b"b").offset == 1
            assert fault.fired == 1


@each_client
def test_another_replica_takes_over_from_a_leader_with_a_full_disk(cluster: EmbeddedCluster, client: Client) -> None:
    topic = new_name()
    with BlockingAdmin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topic(topic, 1, 2)
    cluster.wait_ready()
    with client.producer(cluster.bootstrap, "p", idempotent=True) as producer:
        producer.send(topic, b"a")
        leader = leader_of(cluster, topic)
        with cluster.faults.disk_full(leader):
            assert producer.send(topic, b"b").offset == 1
        assert cluster.brokers[leader].alive


@each_client
def test_a_stepped_clock_dates_records(cluster: EmbeddedCluster, client: Client) -> None:
    topic = new_name()
    create_topic(cluster.bootstrap, topic, 1, {"message.timestamp.type": "LogAppendTime"})
    with client.producer(cluster.bootstrap, "p") as producer:
        before_ms = producer.send(topic, b"a").timestamp_ms
        with cluster.faults.clock_step(HOUR_MS):
            stepped_ms = producer.send(topic, b"b").timestamp_ms
        after_ms = producer.send(topic, b"c").timestamp_ms
    assert before_ms + HOUR_MS <= stepped_ms
    assert after_ms < stepped_ms


@each_client
def test_a_function_changes_what_a_producer_is_told(cluster: EmbeddedCluster, topic: str, client: Client) -> None:
    def promise_more(exchange: Exchange) -> None:
        [answered] = exchange.response.responses
        answered.partition_responses[0].base_offset += 100

    with client.producer(cluster.bootstrap, "p") as producer:
        producer.send(topic, b"a")
        with cluster.faults.intercept(on_response=promise_more, api="Produce", topic=topic) as fault:
            assert producer.send(topic, b"b").offset == 101
            assert fault.fired == 1
        assert producer.send(topic, b"c").offset == 2


@each_client
def test_a_function_sees_requests_and_drops_one(cluster: EmbeddedCluster, topic: str, client: Client) -> None:
    """The records of the Fetch responses come from files, and the function sees their bytes."""
    seen: list[bytes] = []

    def drop_the_first_records(exchange: Exchange) -> Any:
        partitions = [each for answered in exchange.response.responses for each in answered.partitions]
        records = b"".join(bytes(each.records or b"") for each in partitions)
        seen.extend([records] if records else [])
        return DROP if records and len(seen) == 1 else None

    with client.producer(cluster.bootstrap, "p") as producer:
        producer.send(topic, b"a value")
    with (
        cluster.faults.intercept(on_response=drop_the_first_records, api="Fetch", topic=topic),
        client.consumer(cluster.bootstrap, topic, new_name()) as consumer,
    ):
        assert consumer.next_value() == b"a value"
    assert len(seen) >= 2 and all(b"a value" in records for records in seen)


# --- faults whose effect does not depend on the client ----------------------------------------------------------------


def test_a_fault_that_never_fired_fails_its_block(cluster: EmbeddedCluster, topic: str) -> None:
    with (
        pytest.raises(NeverFired, match="Produce"),
        cluster.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER", topic=topic),
    ):
        pass


def test_a_fault_ends_with_its_test_even_if_it_never_fired(tmp_path: Path) -> None:
    """The first test fails because its fault never fired. The second test finds no open fault."""
    (tmp_path / "test_two.py").write_text(
        "from kafka import KafkaProducer\n"
        "def test_1(kafka_zk_cluster):\n"
        "    kafka_zk_cluster.faults.error('Produce', 'POLICY_VIOLATION', times=None)\n"
        "def test_2(kafka_zk_cluster, make_topic):\n"
        "    with KafkaProducer(bootstrap_servers=kafka_zk_cluster.bootstrap) as producer:\n"
        "        producer.send(make_topic(), b'a').get(timeout=10)\n"
    )
    said = run_pytest(tmp_path, "-o", "kafka_zk_brokers=1", "-W", "ignore::DeprecationWarning")
    assert "1 failed, 1 passed" in said, said
    assert "NeverFired: the fault error(api='Produce', code='POLICY_VIOLATION') never fired" in said


def test_an_error_of_the_function_fails_the_test_with_its_traceback(tmp_path: Path) -> None:
    """The second test also fails by itself, but the function's error is the one to show."""
    (tmp_path / "test_two.py").write_text(
        "from kafka import KafkaProducer\n"
        "def wrong(exchange):\n"
        "    return exchange.request.no_such_field\n"
        "def test_1(kafka_zk_cluster, make_topic):\n"
        "    kafka_zk_cluster.faults.intercept(wrong, api='Produce')\n"
        "    with KafkaProducer(bootstrap_servers=kafka_zk_cluster.bootstrap) as producer:\n"
        "        producer.send(make_topic(), b'a').get(timeout=10)\n"
        "def test_2(kafka_zk_cluster, make_topic):\n"
        "    with KafkaProducer(bootstrap_servers=kafka_zk_cluster.bootstrap) as producer:\n"
        "        with kafka_zk_cluster.faults.intercept(wrong, api='Produce'):\n"
        "            producer.send(make_topic(), b'a').get(timeout=10)\n"
        "            assert False, 'the test itself'\n"
    )
    said = run_pytest(tmp_path, "-o", "kafka_zk_brokers=1", "-W", "ignore::DeprecationWarning")
    assert "2 failed" in said, said
    assert said.count("    return exchange.request.no_such_field") == 2, "both tests show the line"
    assert "ProduceRequest has no field 'no_such_field'" in said
    assert "AssertionError: the test itself" in said


def test_a_broker_goes_on_without_a_test_process_that_was_killed(cluster: EmbeddedCluster, topic: str) -> None:
    """The log has one line, and the API has its usual handler again."""
    broker = cluster.brokers[leader_of(cluster, topic)]
    program = (
        "import os, sys, signal\n"
        "from kafka_zk.embedded.fault_client import FaultClient\n"
        "from kafka_zk.embedded.interception import InterceptionServer\n"
        "port, token = int(sys.argv[1]), sys.argv[2]\n"
        "server = InterceptionServer(lambda exchange: os.kill(os.getpid(), signal.SIGKILL), None)\n"
        "FaultClient(port, token).begin({'fault': 'intercept', 'port': server.port, 'api': 'Produce'})\n"
        "server.accept({0: token})\n"
        "print('ready', flush=True)\n"
        "signal.pause()\n"
    )
    command = [sys.executable, "-c", program, str(broker.faults_port), broker.faults_token]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        with CLIENTS[0].producer(cluster.bootstrap, "p") as producer:
            assert [producer.send(topic, b"a").offset for _ in range(3)] == [0, 1, 2]
    assert process.returncode == -signal.SIGKILL
    assert broker.process.output().count("the function that intercepts requests is lost") == 1
    client = FaultClient(broker.faults_port or 0, broker.faults_token)
    assert [client.end(fault["id"])["fired"] for fault in client.open_faults()] == [1]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("Produces", "NOT_COORDINATOR"), "there is no API 'Produces'"),
        (("Produce", "NOT_A_COORDINATOR"), "there is no error 'NOT_A_COORDINATOR'"),
        (("Produce", "NONE"), "there is no error 'NONE'"),
        (("AddRaftVoter", "NOT_COORDINATOR"), "this broker has no API ADD_RAFT_VOTER"),
    ],
)
def test_a_wrong_fault_is_refused(cluster: EmbeddedCluster, arguments: tuple[str, str], reason: str) -> None:
    with pytest.raises(FaultRefused, match=reason):
        cluster.faults.error(*arguments)


def _asked(cluster: EmbeddedCluster, headers: dict[str, str]) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", cluster.brokers[0].faults_port)
    connection.request("POST", "/faults", '{"fault": "throttle", "ms": 1}', headers)
    response = connection.getresponse()
    return response.status, response.read().decode()


def test_only_who_has_the_token_and_is_no_browser_may_inject_faults(cluster: EmbeddedCluster) -> None:
    token = {"Authorization": f"Bearer {cluster.brokers[0].faults_token}"}
    assert _asked(cluster, {})[0] == 401
    assert _asked(cluster, {"Authorization": "Bearer wrong"})[0] == 401
    assert _asked(cluster, {**token, "Origin": "http://localhost:8080"})[0] == 403
    client = FaultClient(cluster.brokers[0].faults_port or 0, cluster.brokers[0].faults_token)
    assert client.open_faults() == []
    status, body = _asked(cluster, token)
    assert status == 201
    fault = json.loads(body)
    assert client.open_faults() == [fault] == [{"id": fault["id"], "fault": "throttle", "fired": 0, "ms": 1}]
    assert client.end(fault["id"]) == fault
    with pytest.raises(FaultRefused, match=f"there is no GET /faults/{fault['id']}"):
        client.fault(fault["id"])


def test_the_api_listens_on_this_address_only(cluster: EmbeddedCluster) -> None:
    """127.0.0.2 is another address of the same machine."""
    port = cluster.brokers[0].faults_port or 0
    socket.create_connection(("127.0.0.1", port), CONNECT_TIMEOUT_S).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), CONNECT_TIMEOUT_S)


def test_an_interception_without_a_function_is_refused(cluster: EmbeddedCluster) -> None:
    with pytest.raises(EmbeddedError, match="needs a function"):
        cluster.faults.intercept()
    client = FaultClient(cluster.brokers[0].faults_port or 0, cluster.brokers[0].faults_token)
    with pytest.raises(FaultRefused, match="no function can be reached at port"):
        client.begin({"fault": "intercept", "port": free_port()})
    assert client.open_faults() == []


def test_a_broker_takes_no_faults_unless_it_was_started_for_them(
    zookeeper_server: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    cluster = EmbeddedCluster(tmp_path, broker_count=1, zookeeper=zookeeper_server)
    with pytest.raises(EmbeddedError, match="take no faults"):
        cluster.faults.clock_step(1)


def test_a_move_without_a_destination_is_refused(cluster: EmbeddedCluster) -> None:
    with pytest.raises(FaultRefused, match="nowhere-0 does not exist"):
        cluster.faults.leader_moves("nowhere")
    with pytest.raises(FaultRefused, match=r"TRANSACTIONAL_ID_NOT_FOUND|no transactional id"):
        cluster.faults.fence(new_name())


def test_the_coordinator_of_a_misspelt_group_does_not_move(cluster: EmbeddedCluster, topic: str) -> None:
    with CLIENTS[0].producer(cluster.bootstrap, "p") as producer:
        producer.send(topic, b"a")
    with CLIENTS[0].consumer(cluster.bootstrap, topic, "orders") as consumer:
        assert consumer.next_value() == b"a"
    before = cluster.coordinator_id("ordesr")
    with pytest.raises(FaultRefused, match="group 'ordesr' does not exist: let a consumer join it first"):
        cluster.faults.coordinator_moves("ordesr")
    assert cluster.coordinator_id("ordesr") == before >= 0
