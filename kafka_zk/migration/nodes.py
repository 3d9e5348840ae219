"""Questions that several checks ask about nodes. Pure."""

from collections.abc import Iterable, Iterator, Mapping

from kafka_zk.base.integers import NATURAL_INT32, PORTS, decimal_integer
from kafka_zk.migration.facts import ClusterFacts, Configs, Fact, MigrationState, Node, Unknown
from kafka_zk.migration.finding import DoesNotApply, NotKnown, known
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
    """A broker's protocol version as a level of metadata.version. Raises NotKnown."""
    level = feature_level(config(node, PROTOCOL))
    if level is None:
        raise NotKnown(Unknown(f"broker {node.node_id}: its {PROTOCOL} is not a version up to 3.9", SERVER_FILES))
    return level


def finalized_by(facts: ClusterFacts) -> str:
    """The evidence that a KRaft controller has finalised the migration; empty if there is none.

    The leader decides: it finalises if it was started without the migration flag, even if other controllers have the
    flag.
    """
    if facts.recorded_state is MigrationState.POST_MIGRATION:
        return "the metadata log has the state POST_MIGRATION"
    ready = ready_controllers(facts)
    if ready and not any(ready.values()):
        return "the controllers run without the migration flag"
    leader_id = -1 if isinstance(facts.quorum, Unknown) else facts.quorum.leader_id
    if not ready.get(leader_id, True):
        return f"controller {leader_id}, the leader, runs without the migration flag"
    return ""


def left_over_state(state: Fact[MigrationState] | None) -> str:
    """If nothing is copied yet: why a metadata log with this state is from an earlier migration; empty if it is not."""
    if state is None or isinstance(state, Unknown) or state in (MigrationState.NONE, MigrationState.PRE_MIGRATION):
        return ""
    return f"has the state {state.name}, but nothing is copied yet: it was left by an earlier migration"


def ready_controllers(facts: ClusterFacts) -> dict[int, bool]:
    """Id -> True if the controller has the migration flag, for the controllers that respond."""
    controllers = () if isinstance(facts.controllers, Unknown) else facts.controllers
    return {node.node_id: node.api.is_migration_ready for node in controllers if not isinstance(node.api, Unknown)}


def oldest_protocol(brokers: Iterable[Node]) -> int:
    """Raises NotKnown."""
    return min((protocol_level(broker) for broker in brokers), default=0)


def by_id(files: Mapping[str, Configs]) -> dict[int, Configs]:
    """The settings of each node with a file that says its id."""
    found = {}
    for configs in files.values():
        node_id = decimal_integer(configs.get("node.id") or configs.get("broker.id") or "", NATURAL_INT32)
        if node_id is not None:
            found[node_id] = configs
    return found


def controllers_without_file(facts: ClusterFacts) -> tuple[Node, ...]:
    """The controllers without a file. Raises NotKnown if neither controllers nor files are known, DoesNotApply if there
    are no controllers."""
    require_controllers(facts)
    if facts.controller_files and isinstance(facts.controllers, Unknown):
        return ()
    with_file = by_id(facts.controller_files)
    return tuple(node for node in known(facts.controllers) if node.node_id not in with_file)


def require_controllers(facts: ClusterFacts) -> None:
    """Raises DoesNotApply if there certainly are no controllers yet, and no file of a planned controller was given."""
    if facts.controllers == () and not facts.controller_files:
        raise DoesNotApply


def configs_of_controllers(facts: ClusterFacts) -> Iterator[tuple[str, Fact[Configs]]]:
    """The name and settings of each controller: from its file, or else from the controller. Raises NotKnown,
    DoesNotApply."""
    yield from facts.controller_files.items()
    for controller in controllers_without_file(facts):
        yield f"controller {controller.node_id}", controller.configs


def voters(configs: Configs) -> dict[int, tuple[str, int]]:
    """Id -> address of the voters in ``controller.quorum.voters``; those that are not ``id@host:port`` are left out."""
    found = {}
    for entry in (configs.get("controller.quorum.voters") or "").split(","):
        name, _, text = entry.strip().partition("@")
        node_id, address = decimal_integer(name, NATURAL_INT32), _address(text)
        if node_id is not None and address is not None:
            found[node_id] = address
    return found


def bootstrap_controllers(configs: Configs) -> list[tuple[str, int]]:
    """Addresses in ``controller.quorum.bootstrap.servers``, which a dynamic quorum has instead of voters (KIP-853)."""
    entries = (configs.get("controller.quorum.bootstrap.servers") or "").split(",")
    return [address for entry in entries if (address := _address(entry.strip())) is not None]


def _address(text: str) -> tuple[str, int] | None:
    host, _, digits = text.rpartition(":")
    port = decimal_integer(digits, PORTS)
    return (host.strip("[]"), port) if host and port is not None else None
