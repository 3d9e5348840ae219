"""Metrics of quotas have the names of Apache Kafka's MBeans, with the client's user and id."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from twisted.internet.task import Clock

from kafka_zk.base.rate import QuotaWindow
from kafka_zk.broker.metrics.client_quotas import client_quota_metrics
from kafka_zk.broker.quota.client_quotas import ClientQuotas
from kafka_zk.broker.quota.enforcement import Enforcement
from kafka_zk.embedded.ports import free_port
from tests.peers import jars, java, targets
from tests.peers.authorization.quota_clients import LAST, TOPIC, Broker

pytestmark = pytest.mark.peers

_TOOL = "org.apache.kafka.tools.JmxTool"
_TYPES = ("Produce", "Fetch", "Request", "ControllerMutation")
_CLIENT = "measured"
_BEAN = re.compile(r"kafka\.server:type=(\w+)((?:,[\w-]+=[^:,]*)*):([\w-]+)")


@pytest.fixture
def beans(peer_zookeeper: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The JMX address of a broker of Apache Kafka whose client has quotas and has used them."""
    port = free_port()
    options = {"port": port, "authenticate": "false", "ssl": "false", "host": "127.0.0.1"}
    flags = [f"-Dcom.sun.management.jmxremote.{name}={value}" for name, value in options.items()]
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", " ".join([*flags, "-Djava.rmi.server.hostname=127.0.0.1"]))
    kafka = targets.start(targets.APACHE_KAFKA, peer_zookeeper, tmp_path, chroot="quota-metrics", timeout_s=180)
    monkeypatch.delenv("JAVA_TOOL_OPTIONS")
    try:
        kafka.create_topic(TOPIC)
        broker = Broker(kafka.name, kafka.ports[0], kafka.zookeeper)
        broker.limit(
            {"client_id": _CLIENT}, producer_byte_rate=1e9, consumer_byte_rate=1e9, request_percentage=1e4,
            controller_mutation_rate=1e6,
        )  # fmt: skip
        client = broker.client(_CLIENT)
        client.produce(100)
        client.fetch()
        client.create("more", 1, 7)
        yield f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi"
    finally:
        kafka.stop()


def _names_at_apache_kafka(url: str) -> set[tuple[str, str, str]]:
    """(Name in the notation of Prometheus, user, client id)."""
    queries = [word for each in _TYPES for word in ("--object-name", f"kafka.server:type={each},*")]
    shown = java.run_tool(jars.ORACLE_VERSION, _TOOL, ["--jmx-url", url, *queries, "--one-time"]).text
    names = set()
    for kind, tags, attribute in _BEAN.findall(shown):
        labels = dict(each.split("=") for each in tags.strip(",").split(",") if each)
        name = f"kafka_server_{kind}_{attribute}".lower().replace("-", "_")
        if not labels.get("client-id", "").startswith(LAST):
            names.add((name, labels.get("user", ""), labels.get("client-id", "")))
    return names


def test_names_and_labels_are_those_of_apache_kafkas_beans(beans: str) -> None:
    enforcement = Enforcement(ClientQuotas(QuotaWindow(), QuotaWindow()), Clock())
    keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
    enforcement.quotas.set("clients", _CLIENT, dict.fromkeys(keys, "1000"))
    enforcement.quotas.of("User:ANONYMOUS", _CLIENT, 0)
    ours = {
        (sample.name, sample.labels.get("user", ""), sample.labels.get("client_id", ""))
        for family in client_quota_metrics(enforcement)
        for sample in family.samples
    }
    delayed = {
        (f"kafka_server_{each.lower()}_queue_size", "", "") for each in _TYPES
    }  # here each connection has a timer
    assert ours | delayed == {each for each in _names_at_apache_kafka(beans) if each[2] in ("", _CLIENT)}
