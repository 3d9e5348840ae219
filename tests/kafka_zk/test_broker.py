"""The broker when one of its parts fails."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import Deferred, ensureDeferred, succeed
from twisted.internet.task import Clock

from kafka_zk.broker import Broker
from kafka_zk.config import KafkaConfig
from registry.znodes.isr import LOG_DIR_EVENTS
from storage.types import TopicPartition
from tests.registry.world import World


def make_broker(clock: Any, client: Any, folder: Path) -> Any:
    config, _ = KafkaConfig.from_properties({"zookeeper.connect": "none:1", "broker.id": "3", "log.dirs": str(folder)})
    broker: Any = Broker(clock, config, client, pytest.fail)
    broker.broker_id = 3
    return broker


def test_a_shutdown_that_fails_still_ends_the_session(tmp_path: Path) -> None:
    """Or the broker would count as alive until its session has expired."""
    closed: list[bool] = []

    class Client:
        def close(self) -> "Deferred[None]":
            closed.append(True)
            return succeed(None)

    class Logs:
        def shutdown(self, *_: Any) -> None:
            raise OSError("the disk is gone")

    broker = make_broker(Clock(), Client(), tmp_path)
    broker._logs = Logs()
    failures: list[Any] = []
    ensureDeferred(broker.stop()).addErrback(failures.append)
    assert closed == [True]
    assert failures[0].check(OSError)


def test_the_controller_is_told_of_a_failed_log_directory(tmp_path: Path) -> None:
    """Also when the connection breaks over it: clients would be sent here for partitions that are not served."""
    world = World()
    failing, controller = world.clients
    lost: list[TopicPartition] = []
    broker = make_broker(world.clock, failing, tmp_path)
    broker._logs = SimpleNamespace(live_directories=[tmp_path])
    broker.services = SimpleNamespace(replicas=SimpleNamespace(directory_failed=lost.extend))
    broker._directory_failed(tmp_path / "gone", OSError("the disk is gone"), [TopicPartition("t", 0)])
    failing.disconnect()
    world.scheduler.run_for(1000)
    assert lost == [TopicPartition("t", 0)]
    names, _ = world.scheduler.run(controller.children(LOG_DIR_EVENTS))
    assert names
