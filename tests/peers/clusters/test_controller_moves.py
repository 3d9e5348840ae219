"""A librdkafka AdminClient that outlives a controller behaves the same with Apache Kafka and with ours.

librdkafka does not request metadata after NOT_CONTROLLER; it does so every five minutes, or when the application asks
for it.
"""

import os
import signal
import time
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kafka_zk.testing.zookeeper import Chroot
from tests.peers import targets
from tests.peers.processes import wait_until

pytestmark = pytest.mark.peers

SESSION_TIMEOUT_MS = 6_000
TRIES = 5
FAILOVER_TIMEOUT_S = 60


def controller(bootstrap: str) -> int:
    """The controller in the metadata of a new client."""
    try:
        told: int = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3}).list_topics(timeout=5).controller_id
    except confluent_kafka.KafkaException:
        return -1
    return told


def creation(admin: AdminClient, topic: str) -> str:
    """The name of the error, or an empty text."""
    try:
        admin.create_topics([NewTopic(topic, 1, 1)], operation_timeout=5, request_timeout=10)[topic].result(30)
    except confluent_kafka.KafkaException as error:
        name: str = error.args[0].name()
        return name
    return ""


@pytest.mark.parametrize("name", targets.NAMES)
def test_a_long_lived_admin_client_asks_the_old_controller(name: str, zookeeper: Chroot, tmp_path: Path) -> None:
    overrides = {"zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS)}
    target = targets.start(name, zookeeper.connect_string, tmp_path, broker_count=3, overrides=overrides)
    try:
        admin = AdminClient({"bootstrap.servers": target.bootstrap, "log_level": 2})
        old = admin.list_topics(timeout=10).controller_id
        assert creation(admin, "before") == ""
        others = ",".join(address for number, address in enumerate(target.bootstrap.split(",")) if number != old)
        os.kill(target.brokers[old].pid, signal.SIGSTOP)
        try:
            wait_until(lambda: controller(others) not in (-1, old), FAILOVER_TIMEOUT_S, "another controller")
        finally:
            os.kill(target.brokers[old].pid, signal.SIGCONT)
        wait_until(lambda: creation(admin, "noticed") == "NOT_CONTROLLER", FAILOVER_TIMEOUT_S, "a refusal")
        assert {creation(admin, f"refused-{number}") for number in range(TRIES)} == {"NOT_CONTROLLER"}
        for address in target.bootstrap.split(","):
            wait_until(lambda a=address: controller(a) not in (-1, old), FAILOVER_TIMEOUT_S, "all to know")  # type: ignore[misc]
        told = admin.list_topics(timeout=10).controller_id
        deadline = time.monotonic() + FAILOVER_TIMEOUT_S
        while (error := creation(admin, "after")) not in ("", "TOPIC_ALREADY_EXISTS"):
            assert time.monotonic() < deadline, (error, told)
    finally:
        complaints = target.stop()
    assert complaints == []
