"""Checks of brokers, controllers and their files. Pure. ``rules`` says why each trap matters."""

from collections.abc import Iterable, Mapping

from kafka_zk.base.integers import NATURAL_INT32, decimal_integer
from kafka_zk.migration.facts import ClusterFacts, Configs, LogDir, MigrationState, Node, Unknown
from kafka_zk.migration.finding import NotKnown, Seen, known, of_each
from kafka_zk.migration.mode import MIGRATION_SINCE, Mode, mode_of, oldest_release
from kafka_zk.migration.nodes import (
    CONTROLLER_FILES,
    FLAG,
    PROTOCOL,
    SERVER_FILES,
    answering,
    by_id,
    config,
    controllers_without_file,
    finalized_by,
    left_over_state,
    protocol_level,
    ready_controllers,
    require_controllers,
    voters,
)
from kafka_zk.storage.files.metadata_version import feature_level, name_of_level

_LIMIT = "reserved.broker.max.id"
_CONTROL_PLANE = "control.plane.listener.name"
_AUTHORIZER = "authorizer.class.name"
_OF_CONTROLLERS = "1"
"""The version in a controller's meta.properties. A broker's version is 0, even after it has moved to KRaft."""
_PERHAPS_DELETES = (3, 7)
"""What ``oldest_release`` returns for both 3.7 and 3.8."""
_FOLDERS = "--log-dirs with the controllers' log.dirs, or ClusterAction on Cluster to fetch the log"
_NO_CONTROLLER = Unknown("no controller responds", "controllers that run and can be reached")


# --- brokers ---


def broker_releases(facts: ClusterFacts) -> Seen:
    def check(broker: Node) -> Seen:
        if oldest_release(known(broker.api)) < MIGRATION_SINCE:
            yield f"broker {broker.node_id} is older than 3.4"

    yield from of_each(_with_zookeeper(facts), check)


def protocol_versions(facts: ClusterFacts) -> Seen:
    names: dict[str, int] = {}

    def check(broker: Node) -> Seen:
        names.setdefault(config(broker, PROTOCOL), broker.node_id)
        if protocol_level(broker) < (feature_level("3.4-IV0") or 0):
            yield f"broker {broker.node_id} has {PROTOCOL}={config(broker, PROTOCOL)}, which is below 3.4"

    yield from of_each(_with_zookeeper(facts), check)
    if len(names) > 1:
        yield f"{PROTOCOL} differs: " + ", ".join(f"{name} at broker {broker}" for name, broker in names.items())


def protocol_and_metadata_version(facts: ClusterFacts) -> Seen:
    require_controllers(facts)
    if not known(facts.controllers):
        return
    levels = {
        level for controller in answering(known(facts.controllers))
        if (level := known(controller.api).metadata_version) is not None
    }  # fmt: skip
    if not levels:
        raise NotKnown(_NO_CONTROLLER)
    wanted = max(levels)

    def check(broker: Node) -> Seen:
        if (level := protocol_level(broker)) != wanted:
            yield (
                f"broker {broker.node_id} has {PROTOCOL}={config(broker, PROTOCOL)} (level {level}), the controllers' "
                f"metadata.version is {name_of_level(wanted)} (level {wanted})"
            )

    yield from of_each(_with_zookeeper(facts), check)


def generated_broker_ids(facts: ClusterFacts) -> Seen:
    def check(broker: Node) -> Seen:
        if config(broker, "broker.id.generation.enable") == "false":
            return
        limit = decimal_integer(text := config(broker, _LIMIT), NATURAL_INT32)
        if limit is None:
            raise NotKnown(Unknown(f"broker {broker.node_id} has {_LIMIT}={text}, which is not a number", SERVER_FILES))
        if broker.node_id > limit:
            yield f"broker {broker.node_id} has an id above {_LIMIT}={limit}"

    yield from of_each(_with_zookeeper(facts), check)
    for path, configs in facts.broker_files.items():
        if (configs.get("broker.id") or "-1") == "-1" and "node.id" not in configs:
            yield f"{path} sets no broker.id"


def several_log_dirs(facts: ClusterFacts) -> Seen:
    def check(broker: Node) -> Seen:
        values = known(broker.configs)
        directories = (values.get("log.dirs") or values.get("log.dir") or "").split(",")
        if len(directories) > 1 and protocol_level(broker) < (feature_level("3.7-IV2") or 0):
            yield f"broker {broker.node_id} has {len(directories)} log.dirs and {PROTOCOL}={config(broker, PROTOCOL)}"

    yield from of_each(_with_zookeeper(facts), check)


def policies(facts: ClusterFacts) -> Seen:
    def check(broker: Node) -> Seen:
        configs = known(broker.configs)
        for key in ("alter.config.policy.class.name", "create.topic.policy.class.name"):
            if configs.get(key):
                yield f"broker {broker.node_id} has {key}={configs[key]}"

    yield from of_each(_with_zookeeper(facts), check)


def refused_settings(facts: ClusterFacts) -> Seen:
    def check(broker: Node) -> Seen:
        if name := known(broker.configs).get(_CONTROL_PLANE):
            yield f"broker {broker.node_id} has {_CONTROL_PLANE}={name}"

    yield from of_each(_with_zookeeper(facts), check)


def producer_id_block(facts: ClusterFacts) -> Seen:
    def check(node: Node) -> Seen:
        release = oldest_release(known(node.api))
        if release == MIGRATION_SINCE:
            yield f"broker {node.node_id} runs release 3.4"
        elif MIGRATION_SINCE < release < (3, 7):
            reason = f"broker {node.node_id} runs release 3.5 or 3.6, which were fixed in 3.5.2 and 3.6.1"
            yield Unknown(reason, "upgrade to 3.9, or read the release in the broker's log")

    yield from of_each(known(facts.brokers), check)


def kraft_brokers_too_early(facts: ClusterFacts) -> Seen:
    migration = known(facts.zookeeper.migration)
    if migration is not None and migration.is_copied:
        return
    if not facts.broker_files:
        yield Unknown("the brokers' files were not given", SERVER_FILES)
    for path, configs in facts.broker_files.items():
        if "broker" in (configs.get("process.roles") or ""):
            broker = "".join(f" (broker {broker_id})" for broker_id in by_id({path: configs}))
            roles = f"{path}{broker} has process.roles={configs['process.roles']}"
            yield f"{roles}, and the metadata are not copied yet: remove process.roles"


def finalized_too_early(facts: ClusterFacts) -> Seen:
    controller = known(facts.zookeeper.controller)
    if controller is None or not controller.is_kraft:
        return
    sign = finalized_by(facts)
    if not sign:
        _require_leader(facts)
        return

    def check(broker: Node) -> Seen:
        if (mode := mode_of(known(broker.api))) is not Mode.KRAFT:
            yield f"{sign}, but broker {broker.node_id} is in {mode} mode"

    yield from of_each(known(facts.brokers), check)


def _require_leader(facts: ClusterFacts) -> None:
    """Raises NotKnown unless a controller with the flag is known to be the leader."""
    ready = ready_controllers(facts)
    if not ready:
        known(facts.controllers)
        raise NotKnown(_NO_CONTROLLER)
    if facts.zookeeper.is_written is True or (all(ready.values()) and len(ready) == len(known(facts.controllers))):
        return
    if known(facts.quorum).leader_id not in ready:
        raise NotKnown(Unknown("the leader of the controllers does not respond", "controllers that can be reached"))


def _with_zookeeper(facts: ClusterFacts) -> list[Node]:
    """Brokers that do not run in KRaft mode; in KRaft mode, inter.broker.protocol.version has no effect."""
    return [
        each for each in known(facts.brokers)
        if isinstance(each.api, Unknown) or mode_of(each.api) is not Mode.KRAFT
    ]  # fmt: skip


# --- controllers ---


def controllers_without_flag(facts: ClusterFacts) -> Seen:
    controller = known(facts.zookeeper.controller)
    if controller is not None and controller.is_kraft:
        return  # a migration ends when the controllers are restarted without the flag
    for path, configs in facts.controller_files.items():
        if configs.get(FLAG) != "true":
            yield f"{path} has no {FLAG}=true"

    yield from _created_without_flag(facts)
    if not any(map(_is_of_controller, facts.log_dirs)):
        require_controllers(facts)
    if facts.controller_files and isinstance(facts.controllers, Unknown):
        return
    with_file = by_id(facts.controller_files)

    def check(node: Node) -> Seen:
        if isinstance(node.api, Unknown) and node.node_id in with_file:
            return  # the controller does not run yet
        if not known(node.api).is_migration_ready:
            yield f"controller {node.node_id} was started without {FLAG}=true"

    yield from of_each(known(facts.controllers), check)


def _created_without_flag(facts: ClusterFacts) -> Seen:
    """Traps in the logs of controllers that do not run."""
    running = ready_controllers(facts).keys()
    for directory in facts.log_dirs:
        is_none = _is_of_controller(directory) and directory.recorded_state is MigrationState.NONE
        if is_none and not running & by_id({directory.path: _meta(directory)}).keys():
            yield f"the metadata log in the folder {directory.path} was created without {FLAG}=true"


def controller_ids(facts: ClusterFacts) -> Seen:
    broker_ids = known(facts.zookeeper.registered)
    ids = {node_id for configs in _configs_with_voters(facts) for node_id in voters(configs)}
    if not isinstance(facts.controllers, Unknown):
        require_controllers(facts)
        ids |= {node.node_id for node in facts.controllers}  # the voters of a dynamic quorum
    elif not ids:
        raise NotKnown(Unknown("no configuration names the voters of the quorum", CONTROLLER_FILES))
    for node_id in sorted(ids & broker_ids):
        yield f"{node_id} is the id of a broker and of a controller"


def _configs_with_voters(facts: ClusterFacts) -> list[Configs]:
    """The configurations that may name the quorum: those in files, and those that brokers describe."""
    brokers = () if isinstance(facts.brokers, Unknown) else facts.brokers
    described = [each.configs for each in brokers if not isinstance(each.configs, Unknown)]
    return [*facts.controller_files.values(), *facts.broker_files.values(), *described]


def controller_cluster_ids(facts: ClusterFacts) -> Seen:
    cluster_id = known(facts.zookeeper.cluster_id)
    metas = {each.path: each.meta for each in facts.log_dirs if each.meta and not isinstance(each.meta, Unknown)}
    for path, meta in metas.items():
        if (found := meta.get("cluster.id", cluster_id)) != cluster_id:
            yield f"the folder {path} belongs to cluster {found}, ZooKeeper has cluster {cluster_id}"
    if not metas:
        require_controllers(facts)
    shown = by_id({path: meta for path, meta in metas.items() if meta.get("version") == _OF_CONTROLLERS})

    def check(node: Node) -> Seen:
        if (
            node.node_id not in shown
            and node.cluster_id is not None
            and (found := known(node.cluster_id)) != cluster_id
        ):
            yield f"controller {node.node_id} belongs to cluster {found}, ZooKeeper has cluster {cluster_id}"

    if not (shown and isinstance(facts.controllers, Unknown)):
        yield from of_each(known(facts.controllers), check)


def controllers_without_authorizer(facts: ClusterFacts) -> Seen:
    if not _brokers_authorize(facts):
        return
    for path, configs in facts.controller_files.items():
        if not configs.get(_AUTHORIZER):
            yield f"the brokers have an authorizer, but {path} has none"

    def check(node: Node) -> Seen:
        if node.has_authorizer is not None and not known(node.has_authorizer):
            yield f"the brokers have an authorizer, but controller {node.node_id} has none"

    yield from of_each(controllers_without_file(facts), check)


def _brokers_authorize(facts: ClusterFacts) -> bool:
    """True if any broker has an authorizer. Raises NotKnown."""
    brokers = known(facts.brokers)
    if any(not isinstance(each.configs, Unknown) and each.configs.get(_AUTHORIZER) for each in brokers):
        return True
    return any(known(each.configs).get(_AUTHORIZER) for each in brokers)


def super_users(facts: ClusterFacts) -> Seen:
    if not _brokers_authorize(facts):
        return
    require_controllers(facts)
    if not facts.broker_files or not facts.controller_files:
        remedy = "--server-properties and --controller-properties with the files of all nodes"
        raise NotKnown(Unknown("the value of super.users is visible only in files", remedy))
    wanted = {user for configs in facts.broker_files.values() for user in _users(configs.get("super.users"))}
    for path, configs in facts.controller_files.items():
        if missing := wanted - _users(configs.get("super.users")):
            yield f"{path} lacks super.users of the brokers: {', '.join(sorted(missing))}"
    for node in controllers_without_file(facts):
        yield Unknown(f"the file of controller {node.node_id} was not given", CONTROLLER_FILES)


def _users(value: str | None) -> set[str]:
    return {user.strip() for user in (value or "").split(";") if user.strip()}


# --- log directories ---


def left_over_metadata_log(facts: ClusterFacts) -> Seen:
    migration, controller = known(facts.zookeeper.migration), known(facts.zookeeper.controller)
    if (migration is not None and migration.is_copied) or (controller is not None and controller.is_kraft):
        return
    of_controllers = [each for each in facts.log_dirs if _is_of_controller(each)]
    for directory in facts.log_dirs:
        if isinstance(directory.meta, Unknown):
            yield directory.meta
        elif isinstance(directory.recorded_state, Unknown):
            yield directory.recorded_state
        elif sign := left_over_state(directory.recorded_state):
            if directory in of_controllers:
                yield f"the metadata log in the folder {directory.path} of a controller {sign}"
            else:
                yield from _of_broker(directory, sign, facts)
    if not facts.log_dirs:
        require_controllers(facts)
    if sign := left_over_state(facts.recorded_state):  # the leader's log, which the other controllers copy
        yield f"the metadata log of the controllers {sign}"
    elif isinstance(facts.recorded_state, Unknown):
        yield from _logs_not_read(facts, of_controllers)


def _is_of_controller(directory: LogDir) -> bool:
    return _meta(directory).get("version") == _OF_CONTROLLERS


def _meta(directory: LogDir) -> Mapping[str, str]:
    """The keys of meta.properties; empty if they are not known."""
    return {} if directory.meta is None or isinstance(directory.meta, Unknown) else directory.meta


def _of_broker(directory: LogDir, sign: str, facts: ClusterFacts) -> Seen:
    """Traps in a broker's copy of the log. Since 3.8, a broker in migration mode deletes its copy when it starts
    (KAFKA-16463)."""
    owner = by_id({directory.path: _meta(directory)})
    for broker in known(facts.brokers):
        if broker.node_id not in owner:
            continue
        release = oldest_release(known(broker.api))
        if release < _PERHAPS_DELETES:
            yield f"the metadata log in the folder {directory.path} of broker {broker.node_id} {sign}"
        elif release == _PERHAPS_DELETES:
            reason = f"broker {broker.node_id} runs release 3.7 or 3.8, and only 3.8 deletes its old metadata log"
            remedy = f"upgrade to 3.9, or stop the broker and delete the log in the folder {directory.path}"
            yield Unknown(reason, remedy)


def _logs_not_read(facts: ClusterFacts, of_controllers: Iterable[LogDir]) -> Seen:
    read = by_id({each.path: _meta(each) for each in of_controllers})
    if isinstance(facts.controllers, Unknown) or not facts.controllers:
        is_hint = any(left_over_state(each.recorded_state) for each in facts.log_dirs)  # a broker's copy
        if not read and (isinstance(facts.controllers, Unknown) or is_hint):
            yield Unknown("the folders of the controllers were not given", _FOLDERS)
        return
    for node in facts.controllers:
        if node.node_id not in read:
            yield Unknown(f"the metadata log of controller {node.node_id} was not read", _FOLDERS)


def meta_properties(facts: ClusterFacts) -> Seen:
    if not facts.log_dirs:
        raise NotKnown(Unknown("no log directory was given", "--log-dirs with the log.dirs of this machine's nodes"))
    owners: dict[str, str] = {}
    for directory in facts.log_dirs:
        if isinstance(directory.meta, Unknown):
            yield directory.meta
        elif directory.meta is None:
            yield f"the folder {directory.path} has no meta.properties"
        elif "broker.id" not in directory.meta and "node.id" not in directory.meta:
            yield f"the file {directory.path}/meta.properties names no broker or node"
        elif "cluster.id" not in directory.meta:
            yield f"the file {directory.path}/meta.properties names no cluster"
        elif directory.meta.get("directory.id") is not None:
            other = owners.setdefault(directory.meta["directory.id"], directory.path)
            if other != directory.path:
                yield f"the folders {directory.path} and {other} have the same directory.id"
