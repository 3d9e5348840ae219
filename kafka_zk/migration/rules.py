"""A table of all traps in a migration from ZooKeeper to KRaft: what is examined, why it matters, and what to do.

Each was seen on Apache Kafka 3.9.1 or is a public report (``source``).
"""

from kafka_zk.migration import node_checks as nodes
from kafka_zk.migration import zookeeper_checks as znodes
from kafka_zk.migration.facts import ClusterFacts
from kafka_zk.migration.finding import Finding, Rule, examine

_SEEN = "seen on 3.9.1"
_RAISE = (
    "First upgrade all brokers to the newest 3.9, unless they have it. Then set inter.broker.protocol.version=3.9 on "
    "all of them, and restart them one by one."
)

RULES = (
    Rule(
        "migration-znode-empty", znodes.migration_znode_empty,
        why="The controllers fail to parse it again and again, and the migration never begins. "
        "zookeeper-security-migration of Kafka creates such a znode.",
        fix="Delete /migration while no controller runs.",
        source="KAFKA-19480", until="3.9.2",
    ),
    Rule(
        "migration-znode-left-over", znodes.migration_znode_left_over,
        why="It was left by a rollback. New controllers believe that the copy is done, and delete all topics, ACLs and "
        "SCRAM users from ZooKeeper within a second.",
        fix="Stop all controllers, then delete /migration. Do not start a controller before that.",
        source="strimzi/strimzi-kafka-operator#11262, KAFKA-17146",
    ),
    Rule(
        "controller-left-over", znodes.controller_left_over,
        why="A KRaft controller wrote a persistent /controller. While no controller runs, the cluster has none: "
        "no leader is elected, no topic is created.",
        fix="Start the controllers again, after you have removed the other traps: some of them make controllers exit. "
        "To roll back instead, stop all controllers, delete /controller and then /migration.",
        source=_SEEN,
    ),
    Rule(
        "controller-epoch-missing", znodes.controller_epoch_missing,
        why="The controllers cannot take over: 'no ZK controller epoch present'.",
        fix="Set /controller_epoch at least as high as controller_epoch in every partition's state, then delete "
        "/controller, so that a broker is elected.",
        source=_SEEN,
    ),
    Rule(
        "controller-epoch-behind", znodes.controller_epoch_behind,
        why="After a rollback, a ZooKeeper controller cannot elect leaders: partitions go offline and stay offline.",
        fix="Before a rollback, or to repair one: 1. Stop all controllers. 2. Set /controller_epoch at least as high "
        "as the epoch that the trap shows, and as the controllers' own epoch: leaderEpoch in the file "
        "__cluster_metadata-0/quorum-state of their log.dirs, so do not delete these first. 3. Delete /controller, so "
        "that a broker is elected.",
        source="KAFKA-20488",
    ),
    Rule(
        "brokers-missing", znodes.brokers_missing,
        why="The migration waits until every broker that has a replica is registered: "
        "'Still waiting for ZK brokers … found in metadata to register'.",
        fix="Start the named brokers, or move their replicas to other brokers.",
        source=_SEEN,
    ),
    Rule(
        "partitions-leaderless", znodes.partitions_leaderless,
        why="Clients cannot read or write them, and no restart of another broker helps.",
        fix="Start the brokers in the last ISR of each partition, and wait until it has a leader.",
        source=_SEEN,
    ),
    Rule(
        "partitions-under-replicated", znodes.partitions_under_replicated,
        why="The migration restarts each broker twice; a partition with one in-sync replica is then unavailable.",
        fix="Wait until kafka-topics.sh --describe --under-replicated-partitions prints nothing.",
        source=_SEEN,
    ),
    Rule(
        "reassignments", znodes.reassignments,
        why="Replicas that a reassignment removes stay on disk as strays.",
        fix="Wait until the reassignment is finished.",
        source="KAFKA-16120", until="3.7.0",
    ),
    Rule(
        "topic-deletions", znodes.deletions,
        why="A topic whose deletion is pending is not migrated. Its znodes vanish, while its records stay on the disk "
        "of a broker that is down.",
        fix="Start all brokers, and wait until /admin/delete_topics is empty.",
        source="KAFKA-15605",
    ),
    Rule(
        "malformed-topics", znodes.malformed_topics,
        why="The copy cannot read these znodes.",
        fix="Correct the JSON.",
        source=_SEEN,
    ),
    Rule(
        "malformed-configs", znodes.malformed_configs,
        why="Kafka reads such a configuration as empty, without an error: cleanup.policy=compact is lost.",
        fix="Set the configuration of the topic or broker again with kafka-configs.sh.",
        source=_SEEN,
    ),
    Rule(
        "malformed-entities", znodes.malformed_entities,
        why="The copy is aborted after it has taken over /controller, the controller's process exits, and no broker "
        "can start.",
        fix="Correct or delete the znode.",
        source=_SEEN,
    ),
    Rule(
        "malformed-acls", znodes.malformed_acls,
        why="The copy is aborted after it has taken over /controller, and the controller's process exits.",
        fix="Correct the znode with kafka-acls.sh, or delete it.",
        source=_SEEN,
    ),
    Rule(
        "protected-znodes", znodes.protected_znodes,
        why="Controllers without the brokers' identity cannot write: the migration never begins, or the copy aborts.",
        fix="Give the controllers the brokers' login (JAAS or key store) and zookeeper.set.acl=true.",
        source=_SEEN,
    ),
    Rule(
        "offsets-in-zookeeper", znodes.offsets_in_zookeeper,
        why="KRaft does not take over /consumers: these consumers stop, and their offsets are lost.",
        fix="Stop the group and copy its offsets: kafka-zk groups migrate --group GROUP --to broker.",
        source="KIP-866",
    ),
    Rule(
        "zookeeper-clients", znodes.zookeeper_clients,
        why="Old consumers, tools and scripts that use ZooKeeper stop working, or change znodes that KRaft never "
        "reads. Brokers that still need ZooKeeper are cut off when it is shut down.",
        fix="Find out what runs at these addresses, and let it use the brokers.",
        source="KIP-866",
    ),
    Rule(
        "delegation-tokens", znodes.delegation_tokens,
        why="They are migrated only since 3.6; logins with them fail after the migration.",
        fix=_RAISE,
        source="KAFKA-15219", until="3.6.0",
    ),
    Rule(
        "scram-users", znodes.scram_users,
        why="KRaft has SCRAM credentials only since 3.5; logins with them fail after the migration.",
        fix=_RAISE,
        source="KIP-900", until="3.5.0",
    ),
    Rule(
        "tiering-disabled", znodes.tiering_disabled,
        why="In ZooKeeper mode, Kafka accepts this change and carries on. After the next restart the remote "
        "records are lost, and setting the key to true again deletes them.",
        fix="Set remote.storage.enable=true again before any broker restarts, or read the records first.",
        source=_SEEN,
    ),
    Rule(
        "encrypted-passwords", znodes.encrypted_passwords,
        why="The controllers cannot decrypt these passwords, so brokers get unusable ones in KRaft mode.",
        fix="Give the controllers the brokers' password.encoder.secret.",
        source="ControllerServer.scala@3.9",
    ),
    Rule(
        "broker-releases", nodes.broker_releases,
        why="Only brokers of 3.4 and later can migrate.",
        fix="Upgrade all brokers to the newest 3.9.",
        source="KIP-866",
    ),
    Rule(
        "protocol-versions", nodes.protocol_versions,
        why="A broker in migration mode exits with a protocol below 3.4, and brokers with different protocols "
        "cannot register with the same quorum.",
        fix=_RAISE,
        source=_SEEN,
    ),
    Rule(
        "protocol-and-metadata-version", nodes.protocol_and_metadata_version,
        why="The controllers refuse to register the brokers; only the brokers' logs say so (UNSUPPORTED_VERSION).",
        fix="Make inter.broker.protocol.version equal to the controllers' metadata.version: format the controllers "
        "with kafka-storage.sh format --release-version, or change the brokers' setting and restart them.",
        source=_SEEN,
    ),
    Rule(
        "generated-broker-ids", nodes.generated_broker_ids,
        why="A broker with a generated id exits when it is restarted in migration mode.",
        fix="Set broker.id to the current id, and broker.id.generation.enable=false or a higher "
        "reserved.broker.max.id.",
        source="KAFKA-17543",
    ),
    Rule(
        "several-log-dirs", nodes.several_log_dirs,
        why="A broker with several log directories exits when it is restarted in migration mode.",
        fix=_RAISE,
        source="KAFKA-16431", until="3.7.0",
    ),
    Rule(
        "policies", nodes.policies,
        why="In KRaft, policies run on the controllers, and they see values that differ from those in ZooKeeper mode.",
        fix="Install the classes on the controllers, and test the policies with them.",
        source="KAFKA-19026, KIP-1252",
    ),
    Rule(
        "refused-settings", nodes.refused_settings,
        why="A broker with this setting exits when it is started in KRaft mode.",
        fix="Remove control.plane.listener.name and its listener from server.properties when you set process.roles.",
        source="KafkaConfig.scala@3.9",
    ),
    Rule(
        "producer-ids", nodes.producer_id_block,
        why="The current block of producer ids is used twice, so two producers can have the same id.",
        fix="Upgrade to the newest 3.9.",
        source="KAFKA-15552", until="3.6.1",
    ),
    Rule(
        "kraft-brokers-too-early", nodes.kraft_brokers_too_early,
        why="Before the copy the controllers refuse KRaft brokers, which exit after a minute.",
        fix="Remove process.roles from the named file, restart its broker in migration mode, and wait for dual "
        "write.",
        source=_SEEN,
    ),
    Rule(
        "finalized-too-early", nodes.finalized_too_early,
        why="Changes, such as new topics, no longer reach ZooKeeper, nor the brokers in migration mode.",
        fix="Restart these brokers in KRaft mode now. There is no way back.",
        source="KAFKA-20960",
    ),
    Rule(
        "controllers-without-flag", nodes.controllers_without_flag,
        why="The brokers are refused, and the flag cannot be set later: the controller then exits.",
        fix="Format the controllers' folders again, start them with zookeeper.metadata.migration.enable=true, and "
        "restart the brokers.",
        source=_SEEN,
    ),
    Rule(
        "controller-ids", nodes.controller_ids,
        why="Dual write is reached, but then the broker cannot start in KRaft mode.",
        fix="Do not restart the named brokers with the migration flag until this is fixed. Give each of these "
        "controllers a node.id that no broker has, change controller.quorum.voters on all controllers and brokers, and "
        "format the controllers' folders again.",
        source=_SEEN,
    ),
    Rule(
        "controller-cluster-ids", nodes.controller_cluster_ids,
        why="No broker can register with the controllers; only the brokers' logs say so (INCONSISTENT_CLUSTER_ID).",
        fix="Format the controllers' folders with the id in /cluster/id.",
        source=_SEEN,
    ),
    Rule(
        "controllers-without-authorizer", nodes.controllers_without_authorizer,
        why="The controllers decide about topics, configurations and ACLs. Without an authorizer, everybody can change "
        "them, even through brokers that have one.",
        fix="Set authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer on the controllers.",
        source=_SEEN,
    ),
    Rule(
        "super-users", nodes.super_users,
        why="Before the copy the controllers know no ACLs, so only super users, the brokers among them, may register.",
        fix="Give the controllers the same super.users as the brokers.",
        source=_SEEN,
    ),
    Rule(
        "left-over-metadata-log", nodes.left_over_metadata_log,
        why="After a rollback, controllers with their old log believe that the migration is under way, and wait "
        "forever: 'KRaft controller indicates an active migration, but the ZK state does not'.",
        fix="After any rollback: 1. Stop the controllers. 2. If controller-epoch-behind is a trap, fix it first, "
        "because that needs the epoch in their old log. 3. Delete the controllers' log.dirs and format them again. "
        "On brokers before 3.8, also delete __cluster_metadata-0 while they are stopped.",
        source=f"{_SEEN}, KAFKA-16463",
    ),
    Rule(
        "meta-properties", nodes.meta_properties,
        why="A node does not start in KRaft mode if meta.properties does not say whose folder it is.",
        fix="If the folder is a broker's, start the broker once in ZooKeeper mode, which completes the file. If it is "
        "a controller's, format it again with kafka-storage.sh. If two folders have the same directory.id, one is a "
        "copy: remove it from log.dirs.",
        source="MetaPropertiesEnsemble.java@3.9",
    ),
)  # fmt: skip
"""The rules in the order in which they are shown."""


def examine_all(facts: ClusterFacts) -> tuple[Finding, ...]:
    return tuple(examine(rule, facts) for rule in RULES)
