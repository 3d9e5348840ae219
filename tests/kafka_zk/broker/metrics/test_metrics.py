"""Metrics of a whole broker under load, as Prometheus scrapes them, and their cost."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kafka_zk.broker.metrics import endpoint
from kafka_zk.broker.metrics.request_stats import RequestStats
from kafka_zk.native.loading import implementation
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.request import RequestContext, RequestHeader
from tests.fuzz.target import Target
from tests.fuzz.test_frames import NEIGHBOUR, Neighbour
from tests.kafka_zk.network.server import request

HEADER = RequestHeader(0, 9, 1, "client")


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    target = Target(tmp_path / "logs", (NEIGHBOUR,), stats=RequestStats())
    yield target
    target.close()


def scrape(target: Target, port: int) -> dict[str, Any]:
    """Value by metric name and labels."""
    peer = socket.create_connection(("127.0.0.1", port))
    peer.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
    peer.setblocking(False)
    received = bytearray()

    def is_complete() -> bool:
        try:
            data = peer.recv(1 << 20)
        except BlockingIOError:
            return False
        received.extend(data)
        return not data

    target.reactor.until(is_complete)
    peer.close()
    _, _, body = bytes(received).partition(b"\r\n\r\n")
    return {
        sample.name + "".join(f",{label}={value}" for label, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


def test_a_scrape_of_a_broker_under_load_shows_what_it_did(target: Target) -> None:
    assert target.stats is not None
    port = endpoint.listen(target.reactor, target.broker.parts, target.broker._client, target.stats, 0, "127.0.0.1")
    neighbour = Neighbour(target)
    for _ in range(50):
        neighbour.works()
    target.send(request(1, b"nonsense", api_key=0, version=9))
    values = scrape(target, port)
    assert values["kafka_zk_authorizer_patterns"] == 0, "the test's own authorizer has no patterns"
    assert values[f"kafka_server_brokertopicmetrics_messagesin_total,topic={NEIGHBOUR}"] == 50
    assert values["kafka_zk_uncheckedbatches_total"] == 0
    native = implementation().native
    assert values["kafka_zk_native"] == (native is not None)
    assert native is None or values["kafka_zk_native_handled_total,function=check_records"] >= 50
    assert values["kafka_network_requestmetrics_requests_total,request=Produce,version=9"] == 50
    assert values["kafka_network_requestmetrics_requests_total,request=Fetch,version=11"] == 50
    assert values["kafka_network_requestmetrics_errors_total,request=Produce,version=9"] == 1
    assert values["kafka_network_requestmetrics_totaltimems_count,request=Fetch,version=11"] == 50
    assert 0 < values["kafka_network_requestmetrics_totaltimems_sum,request=Fetch,version=11"] < 5000
    assert 50 * 61 < values["kafka_server_brokertopicmetrics_bytesin_total"] < 50 * 300
    assert 50 * 61 < values["kafka_server_brokertopicmetrics_bytesout_total"] < 50 * 300
    assert values[f"kafka_log_log_logendoffset,partition=0,topic={NEIGHBOUR}"] == 50
    assert values[f"kafka_log_log_size,partition=0,topic={NEIGHBOUR}"] > 50 * 61
    assert values[f"kafka_log_log_logstartoffset,partition=0,topic={NEIGHBOUR}"] == 0
    for name, value in {
        "kafka_server_replicamanager_partitioncount": 2,
        "kafka_server_replicamanager_leadercount": 2,
        "kafka_server_replicamanager_underreplicatedpartitions": 0,
        "kafka_server_replicamanager_offlinereplicacount": 0,
        "kafka_server_replicamanager_isrshrinks_total": 0,
        "kafka_server_replicafetchermanager_maxlag": 0,
        "kafka_server_replicamanager_isrexpands_total": 0,
        "kafka_server_replicamanager_failedisrupdates_total": 0,
        "kafka_server_replicamanager_underminisrpartitioncount": 0,
        "kafka_controller_kafkacontroller_activecontrollercount": 1,
        "kafka_controller_kafkacontroller_offlinepartitionscount": 0,
        "kafka_controller_kafkacontroller_globaltopiccount": 1,
        "kafka_controller_kafkacontroller_globalpartitioncount": 2,
        "kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize": 0,
        "kafka_coordinator_transaction_transactionmarkerchannelmanager_logappendretryqueuesize": 0,
        "kafka_zk_transactions_transactionalids": 0,
        "kafka_zk_transactions_ongoing": 0,
        "kafka_zk_transactions_heldbytes": 0,
        "kafka_server_sessionexpirelistener_zookeeperexpires_total": 0,
        "kafka_server_sessionexpirelistener_sessionstate,value=CONNECTED": 1,
    }.items():
        assert values[name] == value, name
    assert values["process_open_fds"] > 0


def _seconds_per_call(dispatch: Any, count: int = 20_000) -> float:
    body = memoryview(b"")
    best = 1.0
    for _ in range(5):
        start = time.thread_time()
        for _ in range(count):
            try:
                dispatch(None, HEADER, body).send(None)
            except StopIteration:
                continue
        best = min(best, (time.thread_time() - start) / count)
    return best


def test_counting_costs_little() -> None:
    """Around 0.5 µs a request on a laptop; the bound leaves room for slow machines."""

    async def dispatch(context: RequestContext, header: RequestHeader, body: memoryview) -> list[Part] | None:
        return None

    cost_s = _seconds_per_call(RequestStats().measure(dispatch)) - _seconds_per_call(dispatch)
    assert cost_s < 3e-6
