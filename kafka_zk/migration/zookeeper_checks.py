"""Checks of the znodes. Pure. ``rules`` says why each trap matters."""

from kafka_zk.migration.facts import ClusterFacts, Examples, Fact, MigrationZnode, Partitions, Unknown
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
        partitions = known(facts.zookeeper.partitions)
        if partitions.highest_epoch >= 0:
            highest = f"{_highest(partitions)}, the highest"
            yield f"{highest}: set /controller_epoch to at least {partitions.highest_epoch}"


def controller_epoch_behind(facts: ClusterFacts) -> Seen:
    epoch, controller = known(facts.zookeeper.controller_epoch), known(facts.zookeeper.controller)
    if epoch is None:
        return
    if controller is not None and controller.is_kraft:
        if controller.kraft_epoch > epoch + 1:
            yield f"the KRaft controller's epoch is {controller.kraft_epoch}, {_too_low(epoch, controller.kraft_epoch)}"
        return
    partitions = known(facts.zookeeper.partitions)
    if partitions.highest_epoch > epoch:
        yield f"{_highest(partitions)}, {_too_low(epoch, partitions.highest_epoch)}"


def _highest(partitions: Partitions) -> str:
    return f"the state of {partitions.highest_epoch_at} has controller epoch {partitions.highest_epoch}"


def _too_low(epoch: int, highest: int) -> str:
    return f"/controller_epoch is {epoch}: set it to at least {highest}"


def brokers_missing(facts: ClusterFacts) -> Seen:
    controller = known(facts.zookeeper.controller)
    if controller is not None and controller.is_kraft and _is_copied(facts.zookeeper.migration):
        return  # brokers that have moved are no longer in /brokers/ids
    registered = known(facts.zookeeper.registered)
    for broker_id, partition in sorted(known(facts.zookeeper.partitions).replicas.items()):
        if broker_id not in registered:
            yield f"broker {broker_id} has a replica of {partition}, but is not in /brokers/ids: start it"


def _is_copied(migration: Fact[MigrationZnode | None]) -> bool:
    znode = known(migration)
    return znode is not None and znode.is_copied


def partitions_leaderless(facts: ClusterFacts) -> Seen:
    yield from _listed("partition", "without a leader", known(facts.zookeeper.partitions).leaderless)


def partitions_under_replicated(facts: ClusterFacts) -> Seen:
    yield from _listed("partition", "without its full ISR", known(facts.zookeeper.partitions).under_replicated)


def reassignments(facts: ClusterFacts) -> Seen:
    moving = known(facts.zookeeper.partitions).moving
    if moving.count and oldest_protocol(known(facts.brokers)) < (feature_level("3.7-IV0") or 0):
        yield from _listed("partition", "in a reassignment", moving)


def deletions(facts: ClusterFacts) -> Seen:
    yield from _listed("topic", "whose deletion is not finished", known(facts.zookeeper.deletions))


def malformed_topics(facts: ClusterFacts) -> Seen:
    yield from _listed("znode", "of topics that Kafka cannot parse", known(facts.zookeeper.partitions).malformed)


def malformed_configs(facts: ClusterFacts) -> Seen:
    what = "whose configuration cannot be parsed"
    yield from _listed("topic", what, known(facts.zookeeper.topic_configs).malformed)
    yield from _listed("broker", what, known(facts.zookeeper.broker_configs).malformed)


def malformed_entities(facts: ClusterFacts) -> Seen:
    yield from _listed("znode", "that cannot be parsed", known(facts.zookeeper.malformed_entities))


def malformed_acls(facts: ClusterFacts) -> Seen:
    yield from _listed("ACL", "that cannot be parsed", known(facts.zookeeper.malformed_acls))


def protected_znodes(facts: ClusterFacts) -> Seen:
    protected = known(facts.zookeeper.protected)
    if not protected.count:
        return
    for name, configs in configs_of_controllers(facts):
        if isinstance(configs, Unknown):
            yield configs
        elif configs.get("zookeeper.set.acl") != "true":
            yield f"only the brokers' identity may change {protected}, but {name} lacks zookeeper.set.acl=true"


def offsets_in_zookeeper(facts: ClusterFacts) -> Seen:
    yield from _listed("group", "with members or offsets in ZooKeeper", known(facts.zookeeper.groups))


def zookeeper_clients(facts: ClusterFacts) -> Seen:
    yield from _listed("other host", "connected to ZooKeeper", known(facts.strangers))


def delegation_tokens(facts: ClusterFacts) -> Seen:
    count = known(facts.zookeeper.tokens)
    if count and oldest_protocol(known(facts.brokers)) < (feature_level("3.6-IV2") or 0):
        yield f"{_counted(count, 'delegation token')}, and an inter.broker.protocol.version below 3.6"


def scram_users(facts: ClusterFacts) -> Seen:
    count = known(facts.zookeeper.scram_users)
    if count and oldest_protocol(known(facts.brokers)) < (feature_level("3.5-IV2") or 0):
        yield f"{_counted(count, 'user')} with a SCRAM credential, and an inter.broker.protocol.version below 3.5"


def tiering_disabled(facts: ClusterFacts) -> Seen:
    topics = known(facts.zookeeper.topic_configs).tiering_disabled
    if topics.count and any(
        known(broker.configs).get("remote.log.storage.system.enable") == "true" for broker in known(facts.brokers)
    ):
        yield from _listed("topic", "no longer tiered", topics)


def encrypted_passwords(facts: ClusterFacts) -> Seen:
    brokers = known(facts.zookeeper.broker_configs).with_passwords
    if not brokers.count:
        return
    for name, configs in configs_of_controllers(facts):
        if isinstance(configs, Unknown):
            yield configs
        elif "password.encoder.secret" not in configs:
            yield f"/config/brokers has passwords of {brokers}, and {name} has no password.encoder.secret"


def _listed(noun: str, what: str, examples: Examples) -> Seen:
    if examples.count:
        yield f"{_counted(examples.count, noun)} {what}: {examples}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + "s" * (count != 1)
