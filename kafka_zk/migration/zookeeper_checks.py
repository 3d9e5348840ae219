"""Checks of the znodes. Pure. ``rules`` says why each trap matters."""

from kafka_zk.migration.facts import ClusterFacts, Examples, Fact, MigrationZnode, Unknown
from kafka_zk.migration.finding import Seen, known
from kafka_zk.migration.nodes import answering, configs_of_controllers, oldest_protocol
from kafka_zk.storage.files.metadata_version import feature_level


def migration_znode_empty(facts: ClusterFacts) -> Seen:
    migration = known(facts.zookeeper.migration)
    if migration is not None and migration.metadata_offset is None:
        yield "/migration exists, but its data are empty or not understood"


def migration_znode_left_over(facts: ClusterFacts) -> Seen:
    migration, controller = known(facts.zookeeper.migration), known(facts.zookeeper.controller)
    if migration is None or not migration.is_copied:
        return
    if controller is None or not controller.is_kraft:
        holder = "no node" if controller is None else f"broker {controller.node_id}"
        yield f"/migration has offset {migration.metadata_offset}, but {holder} holds /controller"


def controller_left_over(facts: ClusterFacts) -> Seen:
    controller = known(facts.zookeeper.controller)
    if controller is None or not controller.is_kraft:
        return
    if known(facts.zookeeper.migration) is None:
        yield f"the KRaft controller {controller.node_id} holds /controller, but there is no /migration"
    elif facts.zookeeper.is_written is not True and not answering(known(facts.controllers)):
        yield f"the KRaft controller {controller.node_id} holds /controller, but no controller can be reached"


def controller_epoch_missing(facts: ClusterFacts) -> Seen:
    if known(facts.zookeeper.controller_epoch) is None:
        yield "/controller_epoch does not exist"


def controller_epoch_behind(facts: ClusterFacts) -> Seen:
    epoch, controller = known(facts.zookeeper.controller_epoch), known(facts.zookeeper.controller)
    if epoch is None:
        return
    if controller is not None and controller.is_kraft:
        if controller.kraft_epoch > epoch + 1:
            yield f"the KRaft controller's epoch is {controller.kraft_epoch}, /controller_epoch is {epoch}"
        return
    highest = known(facts.zookeeper.partitions).highest_epoch
    if highest > epoch:
        yield f"a partition's state has controller epoch {highest}, /controller_epoch is {epoch}"


def brokers_missing(facts: ClusterFacts) -> Seen:
    controller = known(facts.zookeeper.controller)
    if controller is not None and controller.is_kraft and _is_copied(facts.zookeeper.migration):
        return  # brokers that have moved are no longer in /brokers/ids
    registered = known(facts.zookeeper.registered)
    for broker_id, partition in sorted(known(facts.zookeeper.partitions).replicas.items()):
        if broker_id not in registered:
            yield f"broker {broker_id} has a replica of {partition}, but is not in /brokers/ids"


def _is_copied(migration: Fact[MigrationZnode | None]) -> bool:
    znode = known(migration)
    return znode is not None and znode.is_copied


def partitions_leaderless(facts: ClusterFacts) -> Seen:
    yield from _listed("partitions without a leader", known(facts.zookeeper.partitions).leaderless)


def partitions_under_replicated(facts: ClusterFacts) -> Seen:
    yield from _listed("partitions without their full ISR", known(facts.zookeeper.partitions).under_replicated)


def reassignments(facts: ClusterFacts) -> Seen:
    moving = known(facts.zookeeper.partitions).moving
    if moving.count and oldest_protocol(known(facts.brokers)) < (feature_level("3.7-IV0") or 0):
        yield from _listed("partitions that are being reassigned", moving)


def deletions(facts: ClusterFacts) -> Seen:
    yield from _listed("topics whose deletion is not finished", known(facts.zookeeper.deletions))


def malformed_topics(facts: ClusterFacts) -> Seen:
    yield from _listed("znodes of topics that Kafka cannot parse", known(facts.zookeeper.partitions).malformed)


def malformed_configs(facts: ClusterFacts) -> Seen:
    yield from _listed("topics whose configuration cannot be parsed", known(facts.zookeeper.topic_configs).malformed)
    yield from _listed("brokers whose configuration cannot be parsed", known(facts.zookeeper.broker_configs).malformed)


def malformed_entities(facts: ClusterFacts) -> Seen:
    yield from _listed("znodes that cannot be parsed", known(facts.zookeeper.malformed_entities))


def malformed_acls(facts: ClusterFacts) -> Seen:
    yield from _listed("ACLs that cannot be parsed", known(facts.zookeeper.malformed_acls))


def protected_znodes(facts: ClusterFacts) -> Seen:
    protected = known(facts.zookeeper.protected)
    if not protected.count:
        return
    for name, configs in configs_of_controllers(facts):
        if isinstance(configs, Unknown):
            yield configs
        elif configs.get("zookeeper.set.acl") != "true":
            yield f"{protected} only the brokers' identity may change, and {name} has no zookeeper.set.acl=true"


def offsets_in_zookeeper(facts: ClusterFacts) -> Seen:
    yield from _listed("groups with members or offsets in ZooKeeper", known(facts.zookeeper.groups))


def zookeeper_clients(facts: ClusterFacts) -> Seen:
    yield from _listed("other addresses are connected to ZooKeeper", known(facts.strangers))


def delegation_tokens(facts: ClusterFacts) -> Seen:
    count = known(facts.zookeeper.tokens)
    if count and oldest_protocol(known(facts.brokers)) < (feature_level("3.6-IV2") or 0):
        yield f"{count} delegation tokens, and an inter.broker.protocol.version below 3.6"


def tiering_disabled(facts: ClusterFacts) -> Seen:
    topics = known(facts.zookeeper.topic_configs).tiering_disabled
    if topics.count and any(
        known(broker.configs).get("remote.log.storage.system.enable") == "true" for broker in known(facts.brokers)
    ):
        yield from _listed("topics that are no longer tiered", topics)


def encrypted_passwords(facts: ClusterFacts) -> Seen:
    brokers = known(facts.zookeeper.broker_configs).with_passwords
    if not brokers.count:
        return
    for name, configs in configs_of_controllers(facts):
        if isinstance(configs, Unknown):
            yield configs
        elif "password.encoder.secret" not in configs:
            yield f"/config/brokers has passwords of {brokers}, and {name} has no password.encoder.secret"


def _listed(what: str, examples: Examples) -> Seen:
    if examples.count:
        yield f"{examples.count} {what}: {examples}"
