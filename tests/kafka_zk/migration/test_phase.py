"""The phase that each set of facts shows, and the advice about the next step and the way back."""

from typing import Any

import pytest

from kafka_zk.migration.facts import (
    ClusterFacts,
    Examples,
    MigrationState,
    MigrationZnode,
    Node,
    Partitions,
    Quorum,
    Unknown,
)
from kafka_zk.migration.mode import Mode
from kafka_zk.migration.phase import Phase, status
from tests.kafka_zk.migration import recorded
from tests.kafka_zk.migration.recorded import REFUSED, brokers, controllers, dual_write, facts

NONE_LEFT: dict[str, Any] = {"registered": frozenset()}
IN_KRAFT = brokers(*[recorded.KRAFT_MODE] * 3)

LEADER_WITHOUT_FLAG = controllers(recorded.NOT_READY, recorded.READY, recorded.READY)
"""Controllers 3001 to 3003; the others were not restarted yet."""

PHASES: list[tuple[Phase, ClusterFacts]] = [
    (Phase.NONE, facts({"migration": None})),
    (Phase.NONE, facts({"migration": None, "controller": None})),
    (Phase.WAITING, facts()),
    (Phase.WAITING, facts({"migration": MigrationZnode(None)})),
    (Phase.COPYING, dual_write({"migration": recorded.NOT_COPIED})),
    (Phase.DUAL_WRITE, dual_write()),
    (Phase.DUAL_WRITE, dual_write(controllers=REFUSED)),
    (Phase.BROKERS_MOVING, dual_write(
        {"registered": frozenset({3})}, brokers=brokers(*[recorded.KRAFT_MODE] * 2, recorded.MIGRATION_MODE)
    )),
    (Phase.BROKERS_MOVED, dual_write(NONE_LEFT, brokers=IN_KRAFT)),
    (Phase.BROKERS_MOVED, dual_write(NONE_LEFT, brokers=IN_KRAFT, controllers=REFUSED)),
    (Phase.FINALIZED, dual_write(NONE_LEFT, brokers=IN_KRAFT, controllers=controllers(recorded.NOT_READY))),
    (Phase.FINALIZED, dual_write(controllers=controllers(recorded.NOT_READY))),
    (Phase.FINALIZED, dual_write(controllers=LEADER_WITHOUT_FLAG, quorum=Quorum(frozenset({1, 2, 3}), 3001))),
    (Phase.FINALIZED, dual_write(recorded_state=MigrationState.POST_MIGRATION)),
    (Phase.FINALIZED, dual_write({"migration": None}, recorded_state=MigrationState.POST_MIGRATION)),
    (Phase.DUAL_WRITE, dual_write(controllers=LEADER_WITHOUT_FLAG, quorum=Quorum(frozenset({1, 2, 3}), 3002))),
    (Phase.FINALIZED, dual_write({**NONE_LEFT, "is_written": False}, brokers=IN_KRAFT, controllers=REFUSED,
                                 recorded_state=MigrationState.POST_MIGRATION)),
    (Phase.DUAL_WRITE, dual_write(controllers=controllers(REFUSED))),
    (Phase.ROLLED_BACK_HALFWAY, dual_write({"is_written": False}, controllers=controllers(REFUSED))),
    (Phase.ROLLED_BACK_HALFWAY, dual_write({"migration": recorded.NOT_COPIED}, controllers=controllers(REFUSED))),
    (Phase.ROLLED_BACK_HALFWAY, dual_write({"migration": None})),
    (Phase.ROLLED_BACK_HALFWAY, dual_write({"controller": recorded.ZOOKEEPER_CONTROLLER})),
    (Phase.ROLLED_BACK_HALFWAY, dual_write({"controller": None})),
]  # fmt: skip


@pytest.mark.parametrize(("phase", "cluster"), PHASES)
def test_the_phase(phase: Phase, cluster: ClusterFacts) -> None:
    assert status(cluster).phase is phase


def test_every_phase_is_tested() -> None:
    assert {phase for phase, _ in PHASES} == set(Phase)


@pytest.mark.parametrize("hidden", ["controller", "migration"])
def test_without_its_znodes_the_phase_is_unknown(hidden: str) -> None:
    found = status(facts({hidden: REFUSED}))
    assert found.phase == REFUSED
    assert found.proceed.is_safe is None and "a permission" in str(found.proceed)


def test_controllers_that_cannot_be_reached_may_run() -> None:
    found = status(facts(controllers=controllers(REFUSED)))
    assert isinstance(found.phase, Unknown) and "can be reached" in found.phase.remedy
    assert found.proceed.is_safe is None


def test_an_empty_list_of_brokers_is_not_enough() -> None:
    """The migration is finalised, or all controllers are down; only with their addresses can the doctor tell."""
    found = status(dual_write({**NONE_LEFT, "is_written": False}, brokers=IN_KRAFT, controllers=REFUSED))
    assert isinstance(found.phase, Unknown) and "--controller-properties" in found.phase.remedy


CONFIRMED: list[tuple[ClusterFacts, bool | None, str]] = [
    (facts(), None, "needed: --controller-log-dir"),
    (facts(recorded_state=MigrationState.PRE_MIGRATION), True, "the metadata log has the state PRE_MIGRATION"),
    (dual_write(recorded_state=MigrationState.MIGRATION), True, "MIGRATION"),
    (dual_write({"migration": recorded.NOT_COPIED}, recorded_state=MigrationState.MIGRATION), True, "MIGRATION"),
    (dual_write(recorded_state=MigrationState.POST_MIGRATION), True, "POST_MIGRATION"),
    (dual_write(recorded_state=MigrationState.NONE), False, "but MIGRATION belongs to this phase"),
    (dual_write({"migration": None}, recorded_state=MigrationState.MIGRATION), None, "has the state MIGRATION"),
]  # fmt: skip


@pytest.mark.parametrize(("cluster", "fits", "text"), CONFIRMED)
def test_the_metadata_log_confirms_the_phase(cluster: ClusterFacts, fits: bool | None, text: str) -> None:
    confirmation = status(cluster).confirmation
    assert (confirmation.fits, text in confirmation.text) == (fits, True), confirmation


def test_modes() -> None:
    apis = recorded.ZOOKEEPER_MODE, recorded.MIGRATION_MODE, recorded.KRAFT_MODE, REFUSED
    found = status(facts(brokers=brokers(*apis)))
    assert found.brokers == {1: Mode.ZOOKEEPER, 2: Mode.MIGRATION, 3: Mode.KRAFT, 4: REFUSED}


GO_ON: list[tuple[ClusterFacts, bool | None, str]] = [
    (facts(), None, "stop the controllers if it finds a trap: the copy begins by itself"),
    (facts(quorum=Quorum(frozenset({1, 2}))), False, "broker 3 has not registered with the quorum"),
    (
        facts(brokers=brokers(recorded.MIGRATION_MODE, recorded.MIGRATION_MODE, recorded.ZOOKEEPER_MODE)),
        False, "broker 3 is in ZooKeeper mode: restart it with the migration flag",
    ),
    (facts({"partitions": Partitions({9: "orders-0"})}), False, "broker 9 has replicas, but is not in /brokers/ids"),
    (facts(controllers=controllers(recorded.NOT_READY)), False, "was started without the migration flag"),
    (facts(controllers=controllers(recorded.READY, REFUSED)), False, "controller 3002 cannot be reached"),
    (facts({"migration": MigrationZnode(None)}), False, "KAFKA-19480"),
    (facts(quorum=REFUSED), None, "a permission"),
    (
        facts(brokers=brokers(recorded.ZOOKEEPER_MODE), quorum=REFUSED), False,
        "broker 1 is in ZooKeeper mode: restart it",
    ),
    (facts({"malformed_acls": Examples.of(["Topic:orders"])}), False, "Topic:orders"),
    (facts({"malformed_entities": REFUSED}), None, "a permission"),
    (facts({"controller_epoch": None}), False, "/controller_epoch does not exist"),
    (facts({"migration": None}, controllers=controllers(recorded.NOT_READY)), False, "without the migration flag"),
    (facts({"migration": None}, controllers=REFUSED), None, "start the controllers"),
    (facts({"migration": None}, controllers=controllers(REFUSED)), None, "start the controllers"),
    (facts({"migration": None}), False, "controller 3001 runs, but creates no /migration"),
    (dual_write(), None, "restart the brokers in KRaft mode, one by one"),
    (dual_write({"migration": recorded.NOT_COPIED}), True, "wait, dual write begins by itself"),
    (dual_write(NONE_LEFT, brokers=IN_KRAFT, controllers=controllers(recorded.NOT_READY)), True, "is done"),
    (dual_write({"is_written": False}), False, "/migration does not change"),
    (dual_write(quorum=Quorum(frozenset({1, 2}))), False, "broker 3 does not read"),
    (
        dual_write(controllers=(Node(1, recorded.READY, {}),)), False,
        "1 is the id of a broker and of a controller",
    ),
    (dual_write(NONE_LEFT, brokers=IN_KRAFT), None, "no way back"),
    (dual_write(
        {**NONE_LEFT, "partitions": Partitions({1: "orders-0"})}, brokers=brokers(recorded.KRAFT_MODE, REFUSED)
    ), None, "a permission"),
    (dual_write(NONE_LEFT, brokers=brokers(recorded.KRAFT_MODE, REFUSED, recorded.KRAFT_MODE)), None, "a permission"),
    (dual_write(NONE_LEFT, brokers=brokers(REFUSED)), None, "no broker responds"),
    (dual_write(NONE_LEFT, brokers=IN_KRAFT[:2]), False, "broker 3 has replicas, but is neither"),
    (dual_write(NONE_LEFT, brokers=brokers(REFUSED, recorded.MIGRATION_MODE, recorded.KRAFT_MODE)), False,
     "broker 2 is in migration mode"),
    (dual_write({"registered": frozenset({1, 3})}, brokers=brokers(recorded.MIGRATION_MODE, REFUSED)), None,
     "a permission"),
    (dual_write({"registered": frozenset({1, 2})}, brokers=brokers(*[recorded.MIGRATION_MODE] * 2)), False,
     "broker 3 has replicas, but is neither"),
    (dual_write({"registered": frozenset({1})}, brokers=brokers(*[recorded.KRAFT_MODE] * 2)), False,
     "broker 3 has replicas, but is neither"),
    (dual_write({"registered": frozenset({1})}, brokers=brokers(*[recorded.KRAFT_MODE] * 3)), None, "the next broker"),
    (dual_write(controllers=controllers(recorded.NOT_READY)), False, "although the migration is finalised"),
    (dual_write({"migration": None}), False, "a rollback is not finished"),
    (facts(recorded_state=MigrationState.MIGRATION), False, "left by an earlier migration; stop them, and format"),
    (facts({"migration": None}, recorded_state=MigrationState.POST_MIGRATION), False, "has the state POST_MIGRATION"),
]  # fmt: skip


@pytest.mark.parametrize(("cluster", "is_safe", "text"), GO_ON, ids=[text for _, _, text in GO_ON])
def test_safe_to_continue(cluster: ClusterFacts, is_safe: bool | None, text: str) -> None:
    advice = status(cluster).proceed
    assert (advice.is_safe, text in advice.text) == (is_safe, True), advice


AHEAD = {"controller": recorded.KRAFT_CONTROLLER._replace(kraft_epoch=10)}
BACK: list[tuple[ClusterFacts, bool | None, str]] = [
    (facts({"migration": None}), True, "whether controllers have an old metadata log is not known"),
    (facts({"migration": None}, controllers=()), True, "no trace of a migration"),
    (facts({"migration": None}, recorded_state=MigrationState.MIGRATION), True,
     "no trace of a migration; but the metadata log of the controllers has the state MIGRATION"),
    (facts(), True, "stop the controllers"),
    (dual_write({"migration": recorded.NOT_COPIED}), False, "the copy is under way"),
    (dual_write(), True, "stop all controllers, then delete /controller, then delete /migration"),
    (dual_write(NONE_LEFT, brokers=IN_KRAFT), True, "restart the KRaft brokers in migration mode"),
    (dual_write(AHEAD), False, "set /controller_epoch to at least 10 first"),
    (dual_write({"controller_epoch": REFUSED}), None, "a permission"),
    (dual_write(controllers=controllers(recorded.NOT_READY)), False, "changes no longer reach"),
    (dual_write(recorded_state=MigrationState.POST_MIGRATION), False, "changes no longer reach"),
    (facts(recorded_state=MigrationState.POST_MIGRATION), True, "stop the controllers"),
    (dual_write({"controller": recorded.ZOOKEEPER_CONTROLLER}, recorded_state=MigrationState.POST_MIGRATION), False,
     "changes no longer reach"),
    (dual_write({"is_written": False}), False, "/migration does not change"),
    (dual_write({**NONE_LEFT, "is_written": False}, brokers=IN_KRAFT), False, "/migration does not change"),
    (dual_write({"controller": recorded.ZOOKEEPER_CONTROLLER}), True, "stop all controllers, then delete /migration"),
]  # fmt: skip


@pytest.mark.parametrize(("cluster", "is_safe", "text"), BACK, ids=[text for _, _, text in BACK])
def test_safe_to_roll_back(cluster: ClusterFacts, is_safe: bool | None, text: str) -> None:
    advice = status(cluster).roll_back
    assert (advice.is_safe, text in advice.text) == (is_safe, True), advice


def test_the_sign_claims_no_more_than_is_seen() -> None:
    found = status(dual_write({"registered": frozenset({1, 2})}))
    assert found.phase is Phase.DUAL_WRITE and found.sign.endswith("/brokers/ids has 1, 2")


def test_a_document_has_no_objects() -> None:
    document = status(facts(brokers=brokers(recorded.MIGRATION_MODE, REFUSED))).as_document()
    assert document["phase"] == "waiting" and document["brokers"] == {"1": "migration", "2": None}
    assert document["continue"]["safe"] is None


NO_OBSTACLE = [cluster for cluster, is_safe, text in GO_ON if is_safe is None and text not in (
    "a permission", "no broker responds",
)]  # fmt: skip


@pytest.mark.parametrize("cluster", NO_OBSTACLE)
def test_before_each_step_the_advice_is_to_check(cluster: ClusterFacts) -> None:
    advice = str(status(cluster).proceed)
    assert advice.startswith(("unknown: run `kafka-zk migration check` until it finds no trap; then ",
                              "unknown: run `kafka-zk migration check` now"))


def test_an_obstacle_comes_after_the_traps() -> None:
    advice = str(status(facts(brokers=brokers(recorded.ZOOKEEPER_MODE))).proceed)
    assert advice.startswith(
        "no: first run `kafka-zk migration check` and remove the traps that it finds; this remains: "
    )
    assert advice.endswith("broker 1 is in ZooKeeper mode: restart it with the migration flag")
