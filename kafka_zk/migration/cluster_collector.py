"""Collects facts from all brokers and controllers of a cluster, and from their configuration files."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from kafka_zk.clients.connection.waiting import run
from kafka_zk.migration.facts import Configs, Fact, Node, Quorum, Unknown, ZooKeeperFacts
from kafka_zk.migration.node_collector import Address, NodeCollector
from kafka_zk.migration.nodes import CONTROLLER_FILES, answering, bootstrap_controllers, by_id, voters

NOT_ASKED = Unknown("the brokers were not asked", "--bootstrap-server")
_NO_CONTROLLERS = Unknown(
    "no configuration names the controllers (controller.quorum.voters or controller.quorum.bootstrap.servers)",
    CONTROLLER_FILES,
)
_NOT_LISTED = Unknown("it is not among the live brokers that the cluster names", "a broker that runs")

Files = Mapping[str, Configs]
"""Path -> server.properties."""


async def ask_brokers(
    collector: NodeCollector, addresses: Fact[Mapping[int, Address]], registered: Iterable[int], files: Files
) -> Fact[tuple[Node, ...]]:
    """Ask all brokers in parallel: those whose addresses are given, those in ZooKeeper, and those with a file."""
    with_file = by_id(files)
    known = {} if isinstance(addresses, Unknown) else addresses
    why = addresses if isinstance(addresses, Unknown) else _NOT_LISTED
    asked = [run(collector.broker(node_id, address)) for node_id, address in known.items()]
    nodes = {node.node_id: node for node in [await each for each in asked]}
    for node_id in {*registered, *with_file} - nodes.keys():
        unknown = Unknown(f"broker {node_id}: {why.reason}", why.remedy)
        nodes[node_id] = Node(node_id, unknown, unknown)
    found = tuple(_with_file(nodes[node_id], with_file) for node_id in sorted(nodes))
    return found or why


async def ask_controllers(
    collector: NodeCollector, zookeeper: ZooKeeperFacts, brokers: Fact[tuple[Node, ...]], broker_files: Files,
    controller_files: Files,
) -> tuple[Fact[tuple[Node, ...]], Fact[Quorum]]:  # fmt: skip
    """The voters, and the quorum as the leader describes it. The voters are empty if the cluster certainly has no
    controllers yet.
    """
    addresses = await controller_addresses(collector, brokers, broker_files, controller_files)
    if isinstance(addresses, Unknown):
        are_none = addresses is _NO_CONTROLLERS and not controller_files and _has_not_begun(zookeeper, brokers)
        return () if are_none else addresses, addresses
    asked = [run(collector.controller(node_id, address)) for node_id, address in sorted(addresses.items())]
    with_file = by_id(controller_files)
    controllers = [_with_file(await each, with_file) for each in asked]
    responding = {node.node_id: addresses[node.node_id] for node in answering(controllers)}
    return tuple(controllers), await collector.quorum(responding)


async def controller_addresses(
    collector: NodeCollector, brokers: Fact[tuple[Node, ...]], broker_files: Files, controller_files: Files
) -> Fact[Mapping[int, Address]]:
    """Id -> address of the voters that any configuration names, or else of a dynamic quorum's voters. There is at least
    one."""
    named, bootstrap = _named_controllers(brokers, broker_files, controller_files)
    if named:
        return named
    return await collector.voters(bootstrap) if bootstrap else _NO_CONTROLLERS


def _has_not_begun(zookeeper: ZooKeeperFacts, brokers: Fact[tuple[Node, ...]]) -> bool:
    """True if no controller has written to ZooKeeper, and the settings of all brokers are known."""
    controller = zookeeper.controller
    if zookeeper.migration is not None or isinstance(controller, Unknown) or isinstance(brokers, Unknown):
        return False
    return not (controller and controller.is_kraft) and not any(isinstance(each.configs, Unknown) for each in brokers)


def controller_hosts(brokers: Fact[tuple[Node, ...]], broker_files: Files, controller_files: Files) -> set[str]:
    """The hosts of all controllers that any configuration names."""
    named, bootstrap = _named_controllers(brokers, broker_files, controller_files)
    return {host for host, _ in (*named.values(), *bootstrap)}


def _named_controllers(
    brokers: Fact[tuple[Node, ...]], broker_files: Files, controller_files: Files
) -> tuple[dict[int, Address], list[Address]]:
    """Id -> address of the voters, and the addresses in ``controller.quorum.bootstrap.servers``."""
    described = () if isinstance(brokers, Unknown) else [node.configs for node in brokers]
    addresses: dict[int, Address] = {}
    bootstrap: dict[Address, None] = {}
    for configs in (*controller_files.values(), *broker_files.values(), *described):
        if not isinstance(configs, Unknown):
            addresses.update(voters(configs))
            bootstrap.update(dict.fromkeys(bootstrap_controllers(configs)))
    return addresses, list(bootstrap)


def _with_file(node: Node, files: Mapping[int, Configs]) -> Node:
    if node.node_id not in files:
        return node
    described = {} if isinstance(node.configs, Unknown) else node.configs
    return replace(node, configs={**described, **files[node.node_id]})
