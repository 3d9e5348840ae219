"""The pytest plugin's command line and ini options, checked before a test runs."""

import pytest

from kafka_zk.base.integers import COUNTS, decimal_integer

BROKER_COUNT = "kafka_zk_brokers"
PROPERTIES = "kafka_zk_properties"
ZOOKEEPER_IMAGE = "kafka_zk_zookeeper_image"
BROKER_IMAGE = "kafka_zk_broker_image"
DEFAULT_BROKER_COUNT = 3


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("kafka-zk")
    group.addoption("--containers", action="store_true", help="run ZooKeepers and brokers in containers")
    group.addoption("--zookeeper-image", metavar="IMAGE", help="of ZooKeeper 3.4 to 3.9, for --containers")
    group.addoption("--broker-image", metavar="IMAGE", help="made by docker/Dockerfile, for --containers")
    group.addoption("--share-cluster", action="store_true", help="with -n: one kafka_zk_cluster for all workers")
    parser.addini(BROKER_COUNT, "brokers of the shared cluster", default=str(DEFAULT_BROKER_COUNT))
    parser.addini(PROPERTIES, "keys of server.properties for every broker, one key=value per line", type="linelist")
    parser.addini(ZOOKEEPER_IMAGE, "like --zookeeper-image, which overrides it")
    parser.addini(BROKER_IMAGE, "like --broker-image, which overrides it")


def broker_count(config: pytest.Config) -> int:
    """The number of brokers of the shared cluster. Raises UsageError."""
    text = config.getini(BROKER_COUNT)
    count = decimal_integer(text, COUNTS)
    if count is None:
        raise pytest.UsageError(f"{BROKER_COUNT} = {text}: not a number of brokers")
    return count


def shares_cluster(config: pytest.Config) -> bool:
    """True if all workers share one cluster. Raises: UsageError."""
    is_shared: bool = config.getoption("share_cluster")
    if is_shared and config.getoption("containers"):
        raise pytest.UsageError("--share-cluster starts processes: use it without --containers")
    return is_shared


def properties(config: pytest.Config) -> dict[str, str]:
    """Kafka's keys for every broker. Raises: UsageError."""
    pairs: dict[str, str] = {}
    for line in config.getini(PROPERTIES):
        key, equals, value = line.partition("=")
        if not equals or not key.strip():
            raise pytest.UsageError(f"{PROPERTIES}: {line!r} is not key=value")
        pairs[key.strip()] = value.strip()
    return pairs


def images(config: pytest.Config) -> dict[str, str]:
    chosen = {
        "zookeeper_image": config.getoption("zookeeper_image") or config.getini(ZOOKEEPER_IMAGE),
        "broker_image": config.getoption("broker_image") or config.getini(BROKER_IMAGE),
    }
    return {name: image for name, image in chosen.items() if image}
