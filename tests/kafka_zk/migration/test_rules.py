"""Each rule finds its trap, and a clean cluster has no trap."""

from dataclasses import fields, replace
from typing import Any

import pytest

from kafka_zk.migration.facts import (
    ApiVersions,
    BrokerConfigs,
    ClusterFacts,
    Examples,
    Fact,
    LogDir,
    MigrationState,
    MigrationZnode,
    Node,
    Partitions,
    Quorum,
    TopicConfigs,
    ZooKeeperFacts,
)
from kafka_zk.migration.finding import Finding, Verdict, exit_code
from kafka_zk.migration.rules import RULES, examine_all
from tests.kafka_zk.migration import recorded
from tests.kafka_zk.migration.recorded import (
    BROKER_CONFIGS,
    BROKER_FILES,
    CLUSTER_ID,
    CONTROLLER_CONFIGS,
    CONTROLLER_FILE,
    REFUSED,
    brokers,
    controllers,
    dual_write,
    facts,
)

TWO_CONTROLLERS = (*controllers(recorded.READY), Node(3002, REFUSED, REFUSED, REFUSED, REFUSED))
"""The second controller refuses every request, and its file was not given."""
SOME = Examples.of(["orders-0"])
WITHOUT_CONTROLLERS = facts(
    {"migration": None, "broker_configs": BrokerConfigs(with_passwords=SOME), "protected": SOME},
    brokers=brokers(recorded.ZOOKEEPER_MODE, **{"controller.quorum.voters": ""}),
    controllers=(), controller_files={}, log_dirs=recorded.LOG_DIRS[:1], quorum=REFUSED,
    broker_files={"1.properties": {"broker.id": "1", "super.users": "User:admin"}},
)  # fmt: skip
"""Nothing has begun, and the cluster names no controllers."""

BROKER_DIR_OF_AN_OLD_ATTEMPT = recorded.LOG_DIRS[0]._replace(recorded_state=MigrationState.MIGRATION)


def controller_dir(recorded_state: Fact[MigrationState] | None, cluster_id: str = CLUSTER_ID) -> LogDir:
    return LogDir("/c", {"version": "1", "node.id": "3001", "cluster.id": cluster_id}, recorded_state)


def controller_file(**changed: str | None) -> dict[str, Any]:
    """The controller's file with some keys changed; None removes a key. ``_`` stands for ``.``."""
    given = {**CONTROLLER_CONFIGS, **{key.replace("_", "."): value for key, value in changed.items()}}
    return {CONTROLLER_FILE: {key: value for key, value in given.items() if value is not None}}


TRAPS: list[tuple[str, ClusterFacts, str]] = [
    ("migration-znode-empty", facts({"migration": MigrationZnode(None)}), "empty"),
    ("migration-znode-left-over", facts({"migration": recorded.COPIED}), "offset 131, but broker 1 holds /controller"),
    ("migration-znode-left-over", facts({"migration": recorded.COPIED, "controller": None}), "no node holds"),
    (
        "controller-left-over",
        dual_write({"is_written": False}, controllers=controllers(REFUSED)),
        "no controller can be reached",
    ),
    ("controller-left-over", dual_write({"migration": None}), "there is no /migration"),
    ("controller-epoch-missing", facts({"controller_epoch": None}), "does not exist"),
    ("controller-epoch-missing", facts({"controller_epoch": None}), "set /controller_epoch to at least 5"),
    ("controller-epoch-missing", facts({"controller_epoch": None, "partitions": REFUSED}), "does not exist"),
    ("controller-epoch-behind", facts({"partitions": Partitions({}, 15, highest_epoch_at="orders-0")}),
     "the state of orders-0 has controller epoch 15, /controller_epoch is 5: set it to at least 15"),
    (
        "controller-epoch-behind",
        dual_write({"controller": recorded.KRAFT_CONTROLLER._replace(kraft_epoch=10)}),
        "epoch is 10, /controller_epoch is 6: set it to at least 10",
    ),
    ("brokers-missing", facts({"partitions": Partitions({9: "orders-0"})}), "start it"),
    ("partitions-leaderless", facts({"partitions": Partitions(leaderless=SOME)}), "1 partition without a leader: "),
    ("partitions-under-replicated", facts({"partitions": Partitions(under_replicated=SOME)}), "orders-0"),
    (
        "reassignments",
        facts({"partitions": Partitions(moving=SOME)}, brokers=brokers(
            recorded.MIGRATION_MODE, **{"inter.broker.protocol.version": "3.6-IV2"}
        )),
        "orders-0",
    ),
    ("topic-deletions", facts({"deletions": SOME}), "orders-0"),
    ("malformed-topics", facts({"partitions": Partitions(malformed=SOME)}), "orders-0"),
    ("malformed-configs", facts({"topic_configs": TopicConfigs(malformed=SOME)}), "orders-0"),
    ("malformed-configs", facts({"broker_configs": BrokerConfigs(malformed=Examples.of(["1"]))}), "1 broker whose"),
    ("malformed-entities", facts({"malformed_entities": Examples.of(["/config/users/alice"])}), "alice"),
    ("malformed-acls", facts({"malformed_acls": Examples.of(["Topic:orders"])}), "Topic:orders"),
    ("protected-znodes", facts({"protected": Examples.of(["/config"])}), "/config"),
    ("zookeeper-clients", facts(strangers=Examples.of(["10.0.0.7 (1 connection)"])), "1 other host connected"),
    ("offsets-in-zookeeper", facts({"groups": Examples.of(["readers"])}), "readers"),
    (
        "delegation-tokens",
        facts({"tokens": 3}, brokers=brokers(
            recorded.MIGRATION_MODE, **{"inter.broker.protocol.version": "3.5-IV2"}
        )),
        "3 delegation tokens",
    ),
    (
        "scram-users",
        facts({"scram_users": 2}, brokers=brokers(
            recorded.MIGRATION_MODE, **{"inter.broker.protocol.version": "3.4-IV0"}
        )),
        "2 users with a SCRAM credential",
    ),
    (
        "tiering-disabled",
        facts({"topic_configs": TopicConfigs(tiering_disabled=SOME)}, brokers=brokers(
            recorded.MIGRATION_MODE, **{"remote.log.storage.system.enable": "true"}
        )),
        "orders-0",
    ),
    (
        "encrypted-passwords",
        facts({"broker_configs": BrokerConfigs(with_passwords=Examples.of(["1"]))}),
        "has no password.encoder.secret",
    ),
    ("broker-releases", facts(brokers=brokers(ApiVersions({1: 13, 3: 12, 4: 6}))), "older than 3.4"),
    (
        "protocol-versions",
        facts(brokers=brokers(recorded.ZOOKEEPER_MODE, **{"inter.broker.protocol.version": "3.3-IV3"})),
        "below 3.4",
    ),
    (
        "protocol-versions",
        facts(brokers=(
            *brokers(recorded.ZOOKEEPER_MODE),
            *brokers(recorded.ZOOKEEPER_MODE, **{"inter.broker.protocol.version": "3.7-IV4"}),
        )),
        "differs: 3.9-IV0 at broker 1, 3.7-IV4 at broker 1",
    ),
    (
        "protocol-and-metadata-version",
        facts(brokers=brokers(recorded.MIGRATION_MODE, **{"inter.broker.protocol.version": "3.4-IV0"})),
        "(level 8), the controllers' metadata.version is 3.9-IV0 (level 21)",
    ),
    (
        "generated-broker-ids",
        facts(brokers=(Node(1001, recorded.ZOOKEEPER_MODE, BROKER_CONFIGS),)),
        "broker 1001 has an id above",
    ),
    (
        "generated-broker-ids",
        facts(brokers=brokers(*[recorded.ZOOKEEPER_MODE] * 101, **{"reserved.broker.max.id": "100"})),
        "broker 101 has an id above reserved.broker.max.id=100",
    ),
    ("generated-broker-ids", facts(broker_files={"b.properties": {"log.dirs": "/data"}}), "sets no broker.id"),
    (
        "several-log-dirs",
        facts(brokers=brokers(
            recorded.ZOOKEEPER_MODE, **{"log.dirs": "/a,/b", "inter.broker.protocol.version": "3.6-IV2"}
        )),
        "2 log.dirs",
    ),
    (
        "policies",
        facts(brokers=brokers(recorded.ZOOKEEPER_MODE, **{"alter.config.policy.class.name": "org.example.Policy"})),
        "org.example.Policy",
    ),
    ("producer-ids", facts(brokers=brokers(ApiVersions({1: 13, 3: 12, 4: 7}))), "release 3.4"),
    (
        "refused-settings",
        facts(brokers=brokers(recorded.ZOOKEEPER_MODE, **{"control.plane.listener.name": "CONTROL_PLANE"})),
        "broker 1 has control.plane.listener.name=CONTROL_PLANE",
    ),
    (
        "kraft-brokers-too-early",
        facts(broker_files={"1.properties": {"node.id": "1", "process.roles": "broker"}}),
        "1.properties (broker 1) has process.roles=broker, and the metadata are not copied yet: remove process.roles",
    ),
    ("finalized-too-early", dual_write(controllers=controllers(recorded.NOT_READY)), "broker 1 is in migration mode"),
    (
        "finalized-too-early",
        dual_write(controllers=controllers(recorded.READY, recorded.NOT_READY), quorum=Quorum(frozenset(), 3002)),
        "controller 3002, the leader, runs without the migration flag, but broker 1 is in migration mode",
    ),
    ("finalized-too-early", dual_write(recorded_state=MigrationState.POST_MIGRATION), "has the state POST_MIGRATION"),
    ("controllers-without-flag", facts(controllers=controllers(recorded.NOT_READY)), "controller 3001 was started"),
    (
        "controllers-without-flag",
        facts(controllers=REFUSED, controller_files=controller_file(zookeeper_metadata_migration_enable=None)),
        "controller.properties has no",
    ),
    (
        "controller-ids",
        facts(controller_files=controller_file(controller_quorum_voters="1@h:9093")),
        "1 is the id of a broker and of a controller",
    ),
    (
        "controller-cluster-ids",
        facts(
            controllers=(Node(3001, recorded.READY, CONTROLLER_CONFIGS, "another", True),),
            log_dirs=recorded.LOG_DIRS[:1],
        ),
        f"controller 3001 belongs to cluster another, ZooKeeper has cluster {CLUSTER_ID}",
    ),
    (
        "controller-cluster-ids",
        facts(log_dirs=(controller_dir(None, cluster_id="another"),)),
        "the folder /c belongs to cluster another",
    ),
    (
        "controllers-without-authorizer",
        facts(controller_files=controller_file(authorizer_class_name=None)),
        "controller.properties has none",
    ),
    (
        "controllers-without-authorizer",
        facts(controller_files={}, controllers=(
            Node(3001, recorded.READY, CONTROLLER_CONFIGS, CLUSTER_ID, False),
        )),
        "controller 3001 has none",
    ),
    (
        "controllers-without-authorizer",
        facts(controllers=(
            *controllers(recorded.READY), Node(3002, recorded.READY, CONTROLLER_CONFIGS, CLUSTER_ID, False),
        )),
        "controller 3002 has none",
    ),
    (
        "controller-cluster-ids",
        facts(
            controllers=(
                *controllers(recorded.READY), Node(3002, recorded.READY, CONTROLLER_CONFIGS, "another", True),
            ),
            log_dirs=(controller_dir(MigrationState.PRE_MIGRATION),),
        ),
        "controller 3002 belongs to cluster another",
    ),
    ("super-users", facts(controller_files=controller_file(super_users="User:other")), "User:admin"),
    (
        "left-over-metadata-log",
        facts({"migration": None}, controllers=REFUSED, log_dirs=(controller_dir(MigrationState.MIGRATION),)),
        "the metadata log in the folder /c of a controller has the state MIGRATION, but nothing is copied yet",
    ),
    (
        "left-over-metadata-log",
        facts(log_dirs=(controller_dir(MigrationState.POST_MIGRATION),)),
        "the metadata log in the folder /c of a controller has the state POST_MIGRATION",
    ),
    (
        "left-over-metadata-log",
        facts(recorded_state=MigrationState.MIGRATION, log_dirs=()),
        "the metadata log of the controllers has the state MIGRATION",
    ),
    (
        "left-over-metadata-log",
        facts(brokers=brokers(ApiVersions({1: 15, 3: 12, 4: 7})), log_dirs=(BROKER_DIR_OF_AN_OLD_ATTEMPT,)),
        "the metadata log in the folder /data of broker 1 has the state MIGRATION",
    ),
    (
        "controllers-without-flag",
        facts({"migration": None}, controllers=REFUSED, log_dirs=(controller_dir(MigrationState.NONE),)),
        "the metadata log in the folder /c was created without zookeeper.metadata.migration.enable=true",
    ),
    ("meta-properties", facts(log_dirs=(LogDir("/a", None, None),)), "the folder /a has no meta.properties"),
    ("meta-properties", facts(log_dirs=(LogDir("/a", {"cluster.id": CLUSTER_ID}, None),)), "names no broker or node"),
    ("meta-properties", facts(log_dirs=(LogDir("/a", {"broker.id": "1"}, None),)), "names no cluster"),
]  # fmt: skip


def found(cluster: ClusterFacts) -> dict[str, Finding]:
    return {each.rule.name: each for each in examine_all(cluster)}


@pytest.mark.parametrize(("name", "cluster", "sentence"), TRAPS, ids=[name for name, _, _ in TRAPS])
def test_a_trap(name: str, cluster: ClusterFacts, sentence: str) -> None:
    finding = found(cluster)[name]
    assert finding.verdict is Verdict.TRAP
    assert any(sentence in each for each in finding.seen), finding.seen


def test_every_rule_has_a_trap() -> None:
    assert {name for name, _, _ in TRAPS} == {rule.name for rule in RULES}


def test_names_are_unique() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)


@pytest.mark.parametrize(
    "cluster",
    [
        WITHOUT_CONTROLLERS,
        facts(),
        dual_write(),
        dual_write({"registered": frozenset()}, brokers=brokers(*[recorded.KRAFT_MODE] * 3)),
        dual_write(
            {"registered": frozenset()},
            brokers=brokers(*[recorded.KRAFT_MODE] * 3), controllers=controllers(recorded.NOT_READY),
        ),
    ],
    ids=["none", "waiting", "dual write", "brokers moved", "finalised"],
)  # fmt: skip
def test_no_false_alarm_in_any_phase(cluster: ClusterFacts) -> None:
    findings = examine_all(cluster)
    good = Verdict.CLEAN, Verdict.DOES_NOT_APPLY
    assert [(each.rule.name, each.seen, each.missing) for each in findings if each.verdict not in good] == []
    assert exit_code(findings) == 0


def test_rules_about_controllers_do_not_apply_while_there_are_none() -> None:
    examined = {each.rule.name for each in examine_all(WITHOUT_CONTROLLERS) if each.verdict is Verdict.DOES_NOT_APPLY}
    assert examined == {
        "protected-znodes", "encrypted-passwords", "protocol-and-metadata-version", "controllers-without-flag",
        "controller-ids", "controllers-without-authorizer", "super-users",
    }  # fmt: skip
    planned = found(replace(WITHOUT_CONTROLLERS, controller_files={CONTROLLER_FILE: CONTROLLER_CONFIGS}))
    assert Verdict.DOES_NOT_APPLY not in {each.verdict for each in planned.values()}
    without_folders = found(replace(WITHOUT_CONTROLLERS, log_dirs=()))
    assert {without_folders[name].verdict for name in ("controller-cluster-ids", "left-over-metadata-log")} == {
        Verdict.DOES_NOT_APPLY
    }


def test_without_any_access_nothing_is_clean_and_nothing_is_a_trap() -> None:
    zookeeper = ZooKeeperFacts(*[REFUSED] * len(fields(ZooKeeperFacts)))
    cluster = ClusterFacts(zookeeper, REFUSED, REFUSED, REFUSED, {}, {}, ())
    findings = examine_all(cluster)
    assert {each.verdict for each in findings} == {Verdict.NOT_CHECKED}
    assert exit_code(findings) == 2


@pytest.mark.parametrize("name", [each.name for each in fields(ZooKeeperFacts) if each.name != "is_written"])
def test_a_hidden_znode_is_never_clean(name: str) -> None:
    """Every fact about ZooKeeper is needed by a rule."""
    missing = [each for each in examine_all(facts({name: REFUSED})) if REFUSED in each.missing]
    assert missing and all(each.verdict is Verdict.NOT_CHECKED for each in missing)


def test_what_one_broker_hides_does_not_excuse_another() -> None:
    hidden = Node(2, REFUSED, REFUSED)
    old = brokers(recorded.ZOOKEEPER_MODE, **{"inter.broker.protocol.version": "3.3-IV3"})
    finding = found(facts(brokers=(hidden, *old)))["protocol-versions"]
    assert finding.verdict is Verdict.TRAP and finding.missing == (REFUSED,)


@pytest.mark.parametrize(
    ("name", "cluster"),
    [
        ("super-users", facts(broker_files={})),
        ("super-users", facts(controllers=TWO_CONTROLLERS)),
        ("controllers-without-flag", facts(controllers=TWO_CONTROLLERS)),
        ("controllers-without-authorizer", facts(controllers=TWO_CONTROLLERS)),
        (
            "encrypted-passwords",
            facts(
                {"broker_configs": BrokerConfigs(with_passwords=SOME)},
                controllers=TWO_CONTROLLERS,
                controller_files=controller_file(password_encoder_secret="s"),
            ),
        ),
        (
            "protected-znodes",
            facts(
                {"protected": SOME},
                controllers=TWO_CONTROLLERS,
                controller_files=controller_file(zookeeper_set_acl="true"),
            ),
        ),
        (
            "finalized-too-early",
            dual_write(
                {"is_written": False}, quorum=REFUSED, controllers=controllers(recorded.READY, recorded.NOT_READY)
            ),
        ),
        ("finalized-too-early", dual_write({"is_written": False}, controllers=TWO_CONTROLLERS)),
        ("left-over-metadata-log", facts(log_dirs=())),
        ("left-over-metadata-log", facts(log_dirs=(controller_dir(REFUSED),))),
        ("left-over-metadata-log", facts(controllers=TWO_CONTROLLERS)),
        (
            "left-over-metadata-log",
            facts(
                brokers=brokers(ApiVersions({1: 16, 3: 12, 4: 7})),
                log_dirs=(*recorded.LOG_DIRS[1:], BROKER_DIR_OF_AN_OLD_ATTEMPT),
            ),
        ),
        ("generated-broker-ids", facts(brokers=brokers(recorded.ZOOKEEPER_MODE, **{"reserved.broker.max.id": "abc"}))),
        ("generated-broker-ids", facts(brokers=(Node(7, recorded.ZOOKEEPER_MODE, REFUSED),))),
        ("kraft-brokers-too-early", facts(broker_files={})),
        ("left-over-metadata-log", facts({"migration": None}, controllers=REFUSED, log_dirs=())),
        ("left-over-metadata-log", facts(controllers=REFUSED, log_dirs=recorded.LOG_DIRS[:1])),
        ("left-over-metadata-log", facts(controllers=(), log_dirs=(BROKER_DIR_OF_AN_OLD_ATTEMPT,))),
        ("meta-properties", facts(log_dirs=())),
        ("zookeeper-clients", facts(strangers=REFUSED)),
        ("protected-znodes", facts({"protected": SOME}, controller_files={}, controllers=REFUSED)),
        ("producer-ids", facts(brokers=brokers(ApiVersions({1: 15, 3: 12, 4: 7})))),
        ("generated-broker-ids", facts(brokers=(Node(1001, recorded.ZOOKEEPER_MODE, REFUSED),))),
        ("protocol-and-metadata-version", facts(controllers=controllers(REFUSED))),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_cannot_be_seen_is_not_checked(name: str, cluster: ClusterFacts) -> None:
    finding = found(cluster)[name]
    assert finding.verdict is Verdict.NOT_CHECKED and all(each.remedy for each in finding.missing)


def test_a_log_of_this_attempt_and_one_that_its_broker_deletes_are_no_trap() -> None:
    for cluster in (
        facts(recorded_state=MigrationState.PRE_MIGRATION, log_dirs=()),
        facts(log_dirs=(*recorded.LOG_DIRS[1:], BROKER_DIR_OF_AN_OLD_ATTEMPT)),
        dual_write(log_dirs=(controller_dir(MigrationState.MIGRATION),)),
    ):
        assert found(cluster)["left-over-metadata-log"].verdict is Verdict.CLEAN


def test_controllers_that_refuse_this_client_may_still_write() -> None:
    refused = found(dual_write(controllers=controllers(REFUSED)))
    assert refused["controller-left-over"].verdict is Verdict.CLEAN


def test_the_file_of_a_controller_is_enough_before_it_runs() -> None:
    planned = found(facts({"migration": None}, controllers=controllers(REFUSED)))
    assert planned["controllers-without-flag"].verdict is Verdict.CLEAN


def test_a_generated_id_does_not_matter_in_kraft_mode() -> None:
    moved = dual_write({"registered": frozenset()}, brokers=(Node(2000, recorded.KRAFT_MODE, BROKER_CONFIGS),))
    assert found(moved)["generated-broker-ids"].verdict is Verdict.CLEAN


def test_one_controller_without_the_flag_does_not_finalise() -> None:
    followers = controllers(recorded.READY, recorded.NOT_READY)
    cluster = dual_write({"is_written": False}, controllers=followers, quorum=Quorum(frozenset(), 3001))
    assert found(cluster)["finalized-too-early"].verdict is Verdict.CLEAN


def test_a_fixed_release_is_clean() -> None:
    moving = facts({"partitions": Partitions(moving=SOME)})
    two_dirs = facts(brokers=brokers(recorded.ZOOKEEPER_MODE, **{"log.dirs": "/a,/b"}), broker_files=BROKER_FILES)
    assert found(moving)["reassignments"].verdict is Verdict.CLEAN
    assert found(two_dirs)["several-log-dirs"].verdict is Verdict.CLEAN
