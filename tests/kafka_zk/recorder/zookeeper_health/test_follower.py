"""A thread that polls, for commands without a reactor."""

from contextlib import closing

import pytest

from kafka_zk.base.clock import monotonic_s, sleep
from kafka_zk.recorder.zookeeper_health import follower as module
from kafka_zk.recorder.zookeeper_health.follower import HealthFollower
from tests.kafka_zk.recorder.zookeeper_health.test_poller import Server


def test_what_it_finds_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTERVAL_S", 0.01)
    server = Server({"srvr": "Mode: standalone\n"})
    told: list[str] = []
    with closing(HealthFollower(server.address, lambda: None)) as follower:
        for count in (2, 4):
            end_s = monotonic_s() + 30
            while len(told) < count and monotonic_s() < end_s:
                told += [f"{type(each).__name__} {each.actor}" for each in follower.events()]
                sleep(0.001)
            server.answers["srvr"] = "This ZooKeeper instance is not currently serving requests\n"
    assert told == [f"ServerStateChanged ZooKeeper {server.address}", "EnsembleStateChanged ZooKeeper"] * 2
    server.close()
