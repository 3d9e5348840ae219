"""Finds the phase of a migration from ZooKeeper to KRaft, and whether it is safe to proceed or to roll back. Pure.

Source: the znodes and ApiVersions responses of a 3.9.1 cluster in each phase.
"""

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafka_zk.migration import node_checks as nodes
from kafka_zk.migration import zookeeper_checks as znodes
from kafka_zk.migration.facts import (
    ClusterFacts,
    ControllerZnode,
    Examples,
    Fact,
    MigrationState,
    MigrationZnode,
    Node,
    Unknown,
)
from kafka_zk.migration.finding import NotKnown, known
from kafka_zk.migration.mode import Mode, mode_of
from kafka_zk.migration.nodes import answering, finalized_by, left_over_state, ready_controllers


class Phase(enum.StrEnum):
    NONE = "none"
    WAITING = "waiting"
    COPYING = "copying"
    DUAL_WRITE = "dual write"
    BROKERS_MOVING = "brokers moving"
    BROKERS_MOVED = "brokers moved"
    FINALIZED = "finalised"
    ROLLED_BACK_HALFWAY = "rolled back half-way"


@dataclass(frozen=True, slots=True)
class Advice:
    """Whether the next step, or a rollback, is safe. ``is_safe``: None if that is unknown, for example because only
    ``kafka-zk migration check`` finds all traps of the step. ``text``: why it is not safe, what is unknown, or what to
    do next."""

    is_safe: bool | None
    text: str

    def __str__(self) -> str:
        match self.is_safe:
            case True:
                return f"yes: {self.text}"
            case False:
                return f"no: {self.text}"
        return f"unknown: {self.text}"


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Whether the metadata log confirms the znodes. ``fits``: None if this is not known."""

    fits: bool | None
    text: str


@dataclass(frozen=True, slots=True)
class Status:
    """``sign``: the evidence for the phase."""

    phase: Fact[Phase]
    sign: str
    confirmation: Confirmation
    brokers: Mapping[int, Fact[Mode]]
    proceed: Advice
    roll_back: Advice

    def as_document(self) -> dict[str, Any]:
        return {
            "phase": None if isinstance(self.phase, Unknown) else self.phase.value,
            "sign": self.sign,
            "confirmed": {"fits": self.confirmation.fits, "text": self.confirmation.text},
            "brokers": {
                str(broker_id): None if isinstance(mode, Unknown) else mode.value
                for broker_id, mode in self.brokers.items()
            },
            "continue": {"safe": self.proceed.is_safe, "text": self.proceed.text},
            "roll_back": {"safe": self.roll_back.is_safe, "text": self.roll_back.text},
        }


def status(facts: ClusterFacts) -> Status:
    try:
        phase, sign = _phase(facts)
    except NotKnown as error:
        return unknown_status(error.unknown, _confirmation(None, facts.recorded_state), modes(facts))
    confirmation = _confirmation(phase, facts.recorded_state)
    return Status(phase, sign, confirmation, modes(facts), _go_on(phase, facts), _roll_back(phase, facts))


def unknown_status(
    unknown: Unknown, confirmation: Confirmation | None = None, brokers: Mapping[int, Fact[Mode]] | None = None
) -> Status:
    """The status of a cluster whose phase is not known."""
    advice = Advice(None, f"{unknown.reason} (needed: {unknown.remedy})")
    return Status(unknown, "", confirmation or Confirmation(None, advice.text), brokers or {}, advice, advice)


_RECORDED = {
    Phase.NONE: (MigrationState.NONE,),
    Phase.WAITING: (MigrationState.PRE_MIGRATION,),
    # The controller records MIGRATION in the log shortly before it writes the offset to /migration.
    Phase.COPYING: (MigrationState.PRE_MIGRATION, MigrationState.MIGRATION),
    Phase.DUAL_WRITE: (MigrationState.MIGRATION,),
    Phase.BROKERS_MOVING: (MigrationState.MIGRATION,),
    Phase.BROKERS_MOVED: (MigrationState.MIGRATION,),
    Phase.FINALIZED: (MigrationState.POST_MIGRATION,),
}


def _confirmation(phase: Phase | None, recorded: Fact[MigrationState]) -> Confirmation:
    if isinstance(recorded, Unknown):
        return Confirmation(None, f"{recorded.reason} (needed: {recorded.remedy})")
    says = f"the metadata log has the state {recorded.name}"
    if phase not in _RECORDED:
        return Confirmation(None, says)
    expected = _RECORDED[phase]
    if recorded in expected:
        return Confirmation(True, says)
    return Confirmation(False, f"{says}, but {expected[0].name} belongs to this phase")


def modes(facts: ClusterFacts) -> dict[int, Fact[Mode]]:
    """Each broker's mode."""
    if isinstance(facts.brokers, Unknown):
        return {}
    return {node.node_id: node.api if isinstance(node.api, Unknown) else mode_of(node.api) for node in facts.brokers}


def _phase(facts: ClusterFacts) -> tuple[Phase, str]:
    controller, migration = known(facts.zookeeper.controller), known(facts.zookeeper.migration)
    if controller is not None and controller.is_kraft:
        return _under_kraft(facts, controller, migration)
    holder = "no node holds /controller" if controller is None else f"broker {controller.node_id} is the controller"
    if migration is not None and migration.is_copied:
        written = facts.zookeeper.is_written is True
        more = "/controller was deleted while controllers run" if written else "/migration was not deleted"
        return Phase.ROLLED_BACK_HALFWAY, f"{holder}, and /migration has an offset: {more}"
    if migration is None:
        return Phase.NONE, f"{holder}, and there is no /migration"
    if not isinstance(facts.controllers, Unknown) and not answering(facts.controllers):
        reason = "/migration has no offset, and no controller responds: either they wait for brokers, or none runs"
        raise NotKnown(Unknown(reason, "controllers that run and can be reached"))
    return Phase.WAITING, f"{holder}, and /migration has no offset"


def _under_kraft(
    facts: ClusterFacts, controller: ControllerZnode, migration: MigrationZnode | None
) -> tuple[Phase, str]:
    holder = f"controller {controller.node_id} holds /controller"
    if facts.recorded_state is MigrationState.POST_MIGRATION:
        return Phase.FINALIZED, finalized_by(facts)
    if migration is None or migration.metadata_offset is None:
        return Phase.ROLLED_BACK_HALFWAY, f"{holder}, and /migration has no data"
    has_addresses, ready = not isinstance(facts.controllers, Unknown), ready_controllers(facts)
    if not migration.is_copied and has_addresses and not ready:
        return Phase.ROLLED_BACK_HALFWAY, f"{holder}, no copy is under way, and no controller can be reached"
    if not migration.is_copied:
        return Phase.COPYING, f"{holder}, and /migration has no offset yet"
    if sign := finalized_by(facts):
        return Phase.FINALIZED, sign
    registered = known(facts.zookeeper.registered)
    if not ready and not known(facts.zookeeper.is_written):
        if registered and has_addresses:
            return Phase.ROLLED_BACK_HALFWAY, f"{holder}, but no controller can be reached, and none writes /migration"
        reason = "no controller writes /migration: the migration is finalised, or no controller runs"
        raise NotKnown(Unknown(reason, "--controller-properties, and controllers that can be reached"))
    if not registered:
        return Phase.BROKERS_MOVED, f"{holder}, and /brokers/ids is empty"
    if Mode.KRAFT in modes(facts).values():
        return Phase.BROKERS_MOVING, f"{holder}, and some brokers are in KRaft mode"
    return Phase.DUAL_WRITE, f"{holder}, and /brokers/ids has {Examples.of(map(str, sorted(registered)))}"


_FINAL = Advice(False, "changes no longer reach ZooKeeper")
_NO_BROKER = Unknown("no broker responds", "--bootstrap-server with brokers that can be reached")
_CHECK = "`kafka-zk migration check`"
_CHECK_FIRST = f"first run {_CHECK} and remove the traps that it finds; this remains: "
_AFTER_CHECK = f"run {_CHECK} until it finds no trap; then "
_NEXT = {
    Phase.NONE: Advice(None, f"{_AFTER_CHECK}start the controllers"),
    Phase.WAITING: Advice(None, f"run {_CHECK} now, and stop the controllers if it finds a trap: the copy begins by "
                          "itself"),
    Phase.COPYING: Advice(True, "wait, dual write begins by itself"),
    Phase.DUAL_WRITE: Advice(None, f"{_AFTER_CHECK}restart the brokers in KRaft mode, one by one"),
    Phase.BROKERS_MOVING: Advice(None, f"{_AFTER_CHECK}restart the next broker in KRaft mode"),
    Phase.BROKERS_MOVED: Advice(None, f"{_AFTER_CHECK}restart the controllers without the migration flag; from then on "
                                "there is no way back"),
    Phase.FINALIZED: Advice(True, "the migration is done, ZooKeeper is no longer needed"),
}  # fmt: skip
"""The advice for each phase if nothing prevents the next step. A half-done rollback has no entry, because it always
prevents the next step."""


def _go_on(phase: Phase, facts: ClusterFacts) -> Advice:
    obstacles: list[str] = []
    try:
        for each in _obstacles(phase, facts):
            obstacles.append(each)  # keeps them even if an unknown fact then ends the check
    except NotKnown as error:
        if not obstacles:
            return Advice(None, f"{error.unknown.reason} (needed: {error.unknown.remedy})")
    return Advice(False, _CHECK_FIRST + "; ".join(obstacles)) if obstacles else _NEXT[phase]


def _obstacles(phase: Phase, facts: ClusterFacts) -> Iterator[str]:
    match phase:
        case Phase.NONE:
            yield from _before_the_beginning(facts)
        case Phase.WAITING:
            yield from _before_the_copy(facts)
        case Phase.DUAL_WRITE | Phase.BROKERS_MOVING:
            yield from _in_dual_write(facts)
        case Phase.BROKERS_MOVED:
            yield from _absent(facts)
            yield from _not_in(facts, Mode.KRAFT)
        case Phase.FINALIZED:
            yield from (f"{each}, although the migration is finalised" for each in _not_in(facts, Mode.KRAFT))
        case Phase.ROLLED_BACK_HALFWAY:
            yield from _after_half_a_rollback(facts)


def _before_the_beginning(facts: ClusterFacts) -> Iterator[str]:
    yield from _old_log(facts)
    if isinstance(facts.controllers, Unknown):
        return
    yield from _without_flag(facts.controllers)
    if known(facts.zookeeper.migration) is None:
        for node in answering(facts.controllers):
            if known(node.api).is_migration_ready:
                yield f"controller {node.node_id} runs, but creates no /migration: it cannot write to ZooKeeper"


def _old_log(facts: ClusterFacts) -> Iterator[str]:
    if sign := left_over_state(facts.recorded_state):
        yield f"the metadata log of the controllers {sign}; stop them, and format their log.dirs again"


def _before_the_copy(facts: ClusterFacts) -> Iterator[str]:
    yield from _old_log(facts)
    migration = known(facts.zookeeper.migration)
    if migration is not None and migration.metadata_offset is None:
        yield "/migration has no data (KAFKA-19480): delete it"
    for node in known(facts.controllers):
        if isinstance(node.api, Unknown):
            yield f"controller {node.node_id} cannot be reached"
    yield from _without_flag(known(facts.controllers))
    registered = known(facts.zookeeper.registered)
    assigned = known(facts.zookeeper.partitions).replicas
    for broker_id in sorted(assigned.keys() - registered):
        yield f"broker {broker_id} has replicas, but is not in /brokers/ids"
    zookeeper_mode = {node_id for node_id, mode in modes(facts).items() if mode is Mode.ZOOKEEPER}
    for broker_id in sorted(zookeeper_mode):
        yield f"broker {broker_id} is in ZooKeeper mode: restart it with the migration flag"
    observers = known(facts.quorum).observers
    for broker_id in sorted(registered - observers - zookeeper_mode):
        yield f"broker {broker_id} has not registered with the quorum"
    for check in _STOP_THE_COPY:
        for seen in check(facts):
            if isinstance(seen, Unknown):
                raise NotKnown(seen)
            yield seen


def _after_half_a_rollback(facts: ClusterFacts) -> Iterator[str]:
    controller, migration = known(facts.zookeeper.controller), known(facts.zookeeper.migration)
    is_held = controller is not None and controller.is_kraft
    if not (is_held and migration is not None and migration.metadata_offset == -1):
        yield "a rollback is not finished"
        return
    yield "the copy was aborted, or a rollback is not finished"
    for check in _ABORT_THE_COPY:
        yield from (seen for seen in check(facts) if isinstance(seen, str))


_ABORT_THE_COPY = znodes.malformed_entities, znodes.malformed_acls, znodes.protected_znodes
_STOP_THE_COPY = (
    nodes.protocol_and_metadata_version, znodes.controller_epoch_missing, *_ABORT_THE_COPY,
)  # fmt: skip
"""With these traps the controllers wait forever, or abort the copy; brokers may still become observers."""


def _without_flag(controllers: Iterable[Node]) -> Iterator[str]:
    for node in answering(controllers):
        if not known(node.api).is_migration_ready:
            yield f"controller {node.node_id} was started without the migration flag"


def _in_dual_write(facts: ClusterFacts) -> Iterator[str]:
    if facts.zookeeper.is_written is False:
        yield "no controller writes to ZooKeeper: /migration does not change"
    registered = known(facts.zookeeper.registered)
    controllers = {node.node_id for node in known(facts.controllers)}
    for node_id in sorted(registered & controllers):
        yield f"{node_id} is the id of a broker and of a controller, and that broker cannot start in KRaft mode"
    for broker_id in sorted(registered - known(facts.quorum).observers - controllers):
        yield f"broker {broker_id} does not read the quorum's metadata"
    yield from _absent(facts)
    for broker_id, mode in modes(facts).items():
        if broker_id in _not_registered(facts):
            known(mode)


def _not_registered(facts: ClusterFacts) -> set[int]:
    """The brokers that have replicas but no znode in /brokers/ids: they run in KRaft mode already, or they are down."""
    return set(known(facts.zookeeper.partitions).replicas) - known(facts.zookeeper.registered)


def _absent(facts: ClusterFacts) -> Iterator[str]:
    not_registered = _not_registered(facts)
    if not_registered and not answering(known(facts.brokers)):
        raise NotKnown(_NO_BROKER)
    for broker_id in sorted(not_registered - modes(facts).keys()):
        yield f"broker {broker_id} has replicas, but is neither in /brokers/ids nor a live broker in KRaft mode"


def _not_in(facts: ClusterFacts, wanted: Mode) -> Iterator[str]:
    brokers = known(facts.brokers)
    for node in answering(brokers):
        if (mode := mode_of(known(node.api))) is not wanted:
            yield f"broker {node.node_id} is in {mode} mode"
    for node in brokers:
        known(node.api)


def _roll_back(phase: Phase, facts: ClusterFacts) -> Advice:
    if facts.recorded_state is MigrationState.POST_MIGRATION and phase not in (Phase.NONE, Phase.WAITING):
        return _FINAL
    match phase:
        case Phase.NONE:
            return Advice(True, _nothing_to_undo(facts))
        case Phase.WAITING:
            return Advice(True, "stop the controllers, and restart the brokers without the migration flag")
        case Phase.COPYING:
            return Advice(False, "the copy is under way: wait for dual write")
        case Phase.FINALIZED:
            return _FINAL
        case Phase.DUAL_WRITE | Phase.BROKERS_MOVING | Phase.BROKERS_MOVED if facts.zookeeper.is_written is False:
            return Advice(False, "/migration does not change: ZooKeeper may lag behind, or the migration is finalised")
    return _back_from_kraft(phase, facts)


def _nothing_to_undo(facts: ClusterFacts) -> str:
    text = "ZooKeeper has no trace of a migration"
    if isinstance(facts.recorded_state, Unknown) and facts.controllers != ():
        return f"{text}; whether controllers have an old metadata log is not known (needed: --controller-log-dir)"
    return "; but ".join([text, *_old_log(facts)])


def _back_from_kraft(phase: Phase, facts: ClusterFacts) -> Advice:
    try:
        epoch, controller = known(facts.zookeeper.controller_epoch), known(facts.zookeeper.controller)
        highest = known(facts.zookeeper.partitions).highest_epoch
    except NotKnown as error:
        return Advice(None, f"{error.unknown.reason} (needed: {error.unknown.remedy})")
    is_elected = controller is not None and not controller.is_kraft
    if controller is not None and controller.is_kraft:
        highest = max(highest, controller.kraft_epoch)
    if epoch is None or highest > epoch + (not is_elected):  # electing a controller will add 1
        text = f"/controller_epoch is {epoch}, and a partition's state may have {highest} (KAFKA-20488)"
        return Advice(False, f"{text}: set /controller_epoch to at least {highest} first")
    steps = ["restart the KRaft brokers in migration mode"] * (phase in (Phase.BROKERS_MOVING, Phase.BROKERS_MOVED))
    steps += ["stop all controllers", *(() if is_elected else ("delete /controller",)), "delete /migration"]
    return Advice(True, f"{', then '.join(steps)}, and restart the brokers without the migration flag")
