"""What the driver refuses before it sends a request."""

import pytest

from kafka_zk.registry.znodes.brokers import BrokerInfo, EndPoint
from kafka_zk.spark_jobs.errors import OptionError
from kafka_zk.spark_jobs.source.driver import Driver, registered_brokers
from kafka_zk.spark_jobs.source.options import parse


@pytest.mark.parametrize("group", ["a/b", "..", "a b"])
def test_a_group_that_no_consumer_could_have_is_refused(group: str) -> None:
    """Such a name would be a path to other znodes, or name a group that no consumer can join."""
    options = {"subscribe": "t", "zookeeper.connect": "127.0.0.1:1", "group.id": group}
    with pytest.raises(OptionError, match=r"group.id: .* is not valid: use letters"):
        Driver(parse(options))


class Registered:
    """Stands for the registry of live brokers."""

    def __init__(self, *protocols: str) -> None:
        endpoints = tuple(EndPoint(each, each, "h", 9000) for each in protocols)
        self._live = {7: (BrokerInfo.of(7, endpoints), 1)} if protocols else {}

    async def live(self) -> dict[int, tuple[BrokerInfo, int]]:
        return self._live


@pytest.mark.parametrize(
    ("protocols", "wanted", "told"), [
        ((), "SSL", "no broker is registered in the ZooKeeper z:1"),
        (("SASL_SSL", "SSL"), "PLAINTEXT", "z:1 have no listener for PLAINTEXT, only for SASL_SSL, SSL: set secur"),
        (("PLAINTEXT",), "SSL", "have no listener for SSL, only for PLAINTEXT"),
    ],
)  # fmt: skip
def test_brokers_with_other_listeners_are_told_from_none(
    monkeypatch: pytest.MonkeyPatch, protocols: tuple[str, ...], wanted: str, told: str
) -> None:
    monkeypatch.setattr("kafka_zk.spark_jobs.source.driver.BrokerRegistry", lambda _: Registered(*protocols))
    with pytest.raises(OptionError, match=told):
        registered_brokers(None, "z:1", wanted)  # type: ignore[arg-type]
