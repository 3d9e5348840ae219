"""What the checks ask about nodes. Pure."""

from collections.abc import Iterable, Iterator

from kafka_zk.migration.facts import ClusterFacts, Configs, Node, Unknown
from kafka_zk.migration.finding import NotKnown, known
from kafka_zk.storage.files.metadata_version import feature_level

PROTOCOL = "inter.broker.protocol.version"
FLAG = "zookeeper.metadata.migration.enable"
CONTROLLER_FILES = "--controller-properties with the file of each controller"
SERVER_FILES = "--server-properties with the file of each broker"


def answering(nodes: Iterable[Node]) -> list[Node]:
    return [node for node in nodes if not isinstance(node.api, Unknown)]


def config(node: Node, key: str) -> str:
    """A broker's value of ``key``. Raises NotKnown."""
    value = known(node.configs).get(key)
    if value is None:
        raise NotKnown(Unknown(f"broker {node.node_id}: the value of {key} is hidden or not set", SERVER_FILES))
    return value


def protocol_level(node: Node) -> int:
    """A broker's protocol as a level of metadata.version. Raises NotKnown."""
    level = feature_level(config(node, PROTOCOL))
    if level is None:
        raise NotKnown(Unknown(f"broker {node.node_id}: its {PROTOCOL} is no version of 3.9 or older", SERVER_FILES))
    return level


def oldest_protocol(brokers: Iterable[Node]) -> int:
    """Raises NotKnown."""
    return min((protocol_level(broker) for broker in brokers), default=0)


def configs_of_controllers(facts: ClusterFacts) -> Iterator[tuple[str, Configs]]:
    """The name and settings of each controller: from its file, or else as it describes them. Raises NotKnown."""
    if facts.controller_files:
        yield from facts.controller_files.items()
        return
    for controller in known(facts.controllers):
        yield f"controller {controller.node_id}", known(controller.configs)


def voters(configs: Configs) -> dict[int, tuple[str, int]]:
    """Id -> address of the voters in ``controller.quorum.voters``; those that are not ``id@host:port`` are left out."""
    found = {}
    for entry in (configs.get("controller.quorum.voters") or "").split(","):
        node_id, _, text = entry.strip().partition("@")
        address = _address(text)
        if node_id.isascii() and node_id.isdigit() and address is not None:
            found[int(node_id)] = address
    return found


def bootstrap_controllers(configs: Configs) -> list[tuple[str, int]]:
    """Addresses in ``controller.quorum.bootstrap.servers``, which a dynamic quorum has instead (KIP-853)."""
    entries = (configs.get("controller.quorum.bootstrap.servers") or "").split(",")
    return [address for entry in entries if (address := _address(entry.strip())) is not None]


def _address(text: str) -> tuple[str, int] | None:
    host, _, port = text.rpartition(":")
    return (host.strip("[]"), int(port)) if host and port.isascii() and port.isdigit() else None
