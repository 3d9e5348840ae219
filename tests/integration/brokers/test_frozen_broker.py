"""A broker whose reactor is blocked loses its session and logs the cause. A broker that only loses its session keeps
serving.
"""

import re
import socket
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.broker import BrokerProcess
from kafka_zk.embedded.cluster import wait_ready
from kafka_zk.embedded.ports import free_ports
from kafka_zk.native.loading import Native
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.request import request_header
from kafka_zk.registry.client.client import RegistryClient, ZnodeStat
from kafka_zk.registry.client.errors import NoNode
from kafka_zk.registry.client.kazoo_blocking import run_blocking
from kafka_zk.testing.clients import create_topic
from kafka_zk.testing.plugin import MakeZkClient
from kafka_zk.testing.zookeeper import Chroot
from tests.integration.brokers.freezable_broker import HANG, THAW
from tests.integration.processes import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.embedded]

SESSION_TIMEOUT_MS = 2000


@pytest.fixture
def metrics_port() -> int:
    return free_ports(1)[0]


@pytest.fixture
def broker(zookeeper: Chroot, tmp_path: Path, metrics_port: int) -> Iterator[BrokerProcess]:
    """A broker that leads the only partition of ``t``."""
    properties = {"zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS)}
    broker = BrokerProcess(tmp_path / "broker", 0, free_ports(1)[0], zookeeper.connect_string, properties)
    broker.process.command = [
        sys.executable, "-m", "tests.integration.brokers.freezable_broker", str(broker.properties_file),
        "--metrics-port", str(metrics_port),
    ]  # fmt: skip
    broker.start()
    wait_ready([broker])
    create_topic(broker.bootstrap, "t", 1, {})
    yield broker
    (broker.folder / THAW).touch()
    (broker.folder / HANG).unlink(missing_ok=True)
    broker.stop()


@pytest.fixture
def znode(make_zk_client: MakeZkClient) -> Callable[[str], tuple[bytes, ZnodeStat] | None]:
    client: RegistryClient = make_zk_client()

    async def look(path: str) -> tuple[bytes, ZnodeStat] | None:
        try:
            data, stat = await client.get(path)
        except NoNode:
            return None
        return data or b"", stat

    return lambda path: run_blocking(look(path))


def produce(broker: BrokerProcess) -> int:
    with BlockingProducer(bootstrap_servers=broker.bootstrap) as producer:
        return producer.send("t", b"x").result(20).offset


def freeze(broker: BrokerProcess) -> socket.socket:
    """Send a request that gets no response before ``thaw``."""
    peer = socket.create_connection(("127.0.0.1", broker.port))
    message = codec.request(ApiKey.DESCRIBE_LOG_DIRS)(topics=None)
    frame = request_header(ApiKey.DESCRIBE_LOG_DIRS, 1, 7, "test") + codec.encode_body(
        message, ApiKey.DESCRIBE_LOG_DIRS, 1
    )
    peer.sendall(len(frame).to_bytes(4, "big") + frame)
    return peer


def test_a_frozen_broker_loses_its_session_and_registers_again_when_it_thaws(
    broker: BrokerProcess, znode: Callable[[str], tuple[bytes, ZnodeStat] | None], metrics_port: int
) -> None:
    before = znode("/brokers/ids/0")
    assert before is not None
    assert produce(broker) == 0
    with freeze(broker) as peer:
        wait_for(lambda: znode("/brokers/ids/0") is None, "the end of the session")
        assert znode("/controller") is None
        host, port = peer.getsockname()
        log = wait_for(lambda: "loop blocked" in broker.process.output() and broker.process.output(), "the warning")
        (line,) = [line for line in log.splitlines() if "loop blocked" in line]
        assert f'api="DESCRIBE_LOG_DIRS v1" peer={host}:{port} where="freeze (brokers/freezable_broker.py:' in line
        (broker.folder / THAW).touch()
        after = wait_for(lambda: znode("/brokers/ids/0"), "the new registration")
        assert after[1].ephemeral_owner != before[1].ephemeral_owner
        assert after[1].czxid > before[1].czxid
        assert len(peer.recv(4)) == 4, "no response after the thaw"
    wait_ready([broker])
    assert produce(broker) == 1
    wait_for(lambda: "event loop was blocked" in broker.process.output(), "the end of the turn in the log")
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics") as answer:
        assert b"\nkafka_zk_reactor_longturns_total 1.0\n" in answer.read()


def test_a_broker_whose_disk_hangs_under_native_code_loses_its_session(
    native: Native,
    broker: BrokerProcess,
    znode: Callable[[str], tuple[bytes, ZnodeStat] | None],
    metrics_port: int,
) -> None:
    """Native code reads the request and checks its records. The write blocks only the reactor's thread."""
    assert produce(broker) == 0
    (broker.folder / HANG).touch()
    with BlockingProducer(bootstrap_servers=broker.bootstrap) as producer:
        sent = producer.send("t", b"x")
        wait_for(lambda: znode("/brokers/ids/0") is None, "the end of the session")
        log = wait_for(lambda: "loop blocked" in broker.process.output() and broker.process.output(), "the warning")
        (line,) = [line for line in log.splitlines() if "loop blocked" in line]
        assert 'api="PRODUCE v' in line and 'where="write (brokers/freezable_broker.py:' in line
        (broker.folder / HANG).unlink()
        assert sent.result(20).offset == 1
    wait_for(lambda: znode("/brokers/ids/0"), "the new registration")
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics") as answer:
        handled = dict(re.findall(rb'^kafka_zk_native_handled_total{function="(\w+)"} ([\d.]+)$', answer.read(), re.M))
    assert float(handled[b"read_produce"]) >= 2 and float(handled[b"check_records"]) >= 2


def test_a_session_that_is_lost_without_a_freeze_is_no_outage(
    broker: BrokerProcess,
    znode: Callable[[str], tuple[bytes, ZnodeStat] | None],
    expire_session: Callable[[int], None],
) -> None:
    """The leader serves clients during and after the loss, and neither the ISR nor the leader changes."""
    registered, state = znode("/brokers/ids/0"), znode("/brokers/topics/t/partitions/0/state")
    assert registered is not None and state is not None
    with BlockingProducer(bootstrap_servers=broker.bootstrap) as producer:
        assert producer.send("t", b"before").result(20).offset == 0
        expire_session(registered[1].ephemeral_owner)
        offset = 1
        while (again := znode("/brokers/ids/0")) is None or again[1].czxid == registered[1].czxid:
            assert producer.send("t", b"meanwhile").result(20).offset == offset
            offset += 1
        assert producer.send("t", b"after").result(20).offset == offset
    wait_ready([broker])
    assert produce(broker) == offset + 1
    assert znode("/brokers/topics/t/partitions/0/state") == state
