"""Walks a copied cluster to KRaft, phase by phase, and back from each phase before the last.

There is no way back from the last phase. The metadata is copied too quickly for a walk back from the middle of the
copy.

Source: the steps of Kafka's own migration and of its rollback, as run with a 3.9.1 cluster.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from kafka_zk.base.clock import monotonic_s
from kafka_zk.clients.connection.errors import KafkaError
from kafka_zk.embedded.errors import EmbeddedError
from kafka_zk.migration.facts import ClusterFacts, Unknown
from kafka_zk.migration.finding import Finding, Verdict
from kafka_zk.migration.mode import Mode
from kafka_zk.migration.phase import Phase
from kafka_zk.migration.rehearsal.controller_log import ControllerLog
from kafka_zk.migration.rehearsal.copied_tree import CopiedTree, must_survive
from kafka_zk.migration.rehearsal.report import Run, Step
from kafka_zk.migration.rehearsal.site import Equipment, Site
from kafka_zk.migration.rules import examine_all
from kafka_zk.migration.zookeeper_collector import collect
from kafka_zk.registry.client.errors import RegistryError
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.znodes.controller import CONTROLLER
from kafka_zk.registry.znodes.migration import MIGRATION
from kafka_zk.registry.znodes.topics import topic_path

FAILURES = (EmbeddedError, RegistryError, KafkaError, OSError)
"""Errors of the processes of a run."""

_START_S, _COPY_S, _SYNC_S, _BROKER_S, _WRITE_S = 120, 300, 300, 120, 120
_TOPIC = "__kafka_zk_rehearsal"
"""The topic that is created and deleted in dual write."""
_NOT_REHEARSED = Unknown("brokers and controllers are not part of the copy", "kafka-zk migration check")


def run_name(back_from: Phase | None) -> str:
    return "forward" if back_from is None else f"back from {back_from}"


def failed_run(back_from: Phase | None, error: Exception) -> Run:
    """A run whose processes did not start, or did not end."""
    return Run(run_name(back_from), (_not_reached("ZooKeeper on the copy", 0, error),))


def _not_reached(phase: str, seconds: float, error: Exception) -> Step:
    return Step(phase, seconds, problems=(str(error) or type(error).__name__,), is_reached=False)


def rehearse(folder: Path, equipment: Equipment, back_from: Phase | None) -> tuple[Run, list[Finding]]:
    """The run, and the traps that were in the copy before it. ``back_from``: None: forward to the end.

    Raises: EmbeddedError if ZooKeeper does not start on the copy.
    """
    begun_s = monotonic_s()
    with Site(folder, equipment) as site:
        started = Step("ZooKeeper on the copy", monotonic_s() - begun_s)
        found = traps(site.client, equipment.copy.tree)
        walk = _Walk(site, equipment.copy.tree, frozenset(each.rule.name for each in found))
        return Run(run_name(back_from), (started, *walk.steps(back_from))), found


def traps(client: KazooBlockingClient, tree: CopiedTree | None = None) -> list[Finding]:
    """The rules of ``check`` that find a trap in ZooKeeper. With ``tree``, the check assumes that the tree's brokers
    are still registered."""
    zookeeper = run_blocking(collect(client))
    if tree is not None:
        unknown = Unknown("no broker was registered when the copy was taken", "a copy of a running cluster")
        zookeeper = replace(zookeeper, registered=tree.registered or unknown, controller=tree.controller)
    facts = ClusterFacts(zookeeper, _NOT_REHEARSED, _NOT_REHEARSED, _NOT_REHEARSED, {}, {}, ())
    return [finding for finding in examine_all(facts) if finding.verdict is Verdict.TRAP]


def _is_copied(log: ControllerLog) -> bool:
    """True if the copy is complete, or if a controller that skips the copy has written to ZooKeeper."""
    return log.copied_records is not None or (log.skips_copy and log.writes is not None)


class _Outcome(NamedTuple):
    """``reason``: why the phase was not reached; empty if it was. ``problems`` do not end the run."""

    reason: str
    note: str
    problems: tuple[str, ...] = ()


class _Walk:
    """One run."""

    def __init__(self, site: Site, tree: CopiedTree, known_traps: frozenset[str]) -> None:
        self._site = site
        self._expected = must_survive(tree.data)
        self._known_traps = known_traps
        self._reported: set[str] = set()

    def steps(self, back_from: Phase | None) -> list[Step]:
        forward = [
            (Phase.WAITING, self._wait), (Phase.COPYING, self._copy), (Phase.DUAL_WRITE, self._sync),
            (Phase.BROKERS_MOVED, self._move), (Phase.FINALIZED, self._finalize),
        ]  # fmt: skip
        done: list[Step] = []
        for phase, work in forward:
            done.append(self._step(phase.value, work))
            if not done[-1].is_reached:
                return done
            if phase is back_from:
                return done + self._back(phase)
        return done

    def _back(self, phase: Phase) -> list[Step]:
        done = []
        if phase is Phase.BROKERS_MOVED:
            done.append(self._step("brokers back in migration mode", self._move_back))
            if not done[-1].is_reached:
                return done
        done.append(self._step("rolled back", self._roll_back))
        return done

    def _step(self, phase: str, work: Callable[[], _Outcome]) -> Step:
        begun_s = monotonic_s()
        try:
            return self._done(phase, work, begun_s)
        except FAILURES as error:
            return _not_reached(phase, monotonic_s() - begun_s, error)

    def _done(self, phase: str, work: Callable[[], _Outcome], begun_s: float) -> Step:
        """Raises: FAILURES."""
        reason, note, seen = work()
        seconds = monotonic_s() - begun_s
        new = [each for each in self._site.controllers.read_log().errors if each not in self._reported]
        self._reported.update(new)
        problems = [*seen, *(f"a controller logs: {each}" for each in new)]
        if reason:
            problems = [reason, *self._site.fleet.refusals(), *problems]
        problems += self._site.losses(self._expected)
        return Step(phase, seconds, note, tuple(problems), is_reached=not reason)

    # --- forward ---

    def _wait(self) -> _Outcome:
        reason = self._started(Mode.ZOOKEEPER)
        if not reason:
            self._site.controllers.start(self._site.connect_string)
            reason = self._site.until(lambda log: log.is_waiting, _START_S, "the KRaft controllers")
        return _Outcome(reason, f"{self._site.controllers} waiting for brokers")

    def _copy(self) -> _Outcome:
        reason = self._restarted(Mode.MIGRATION) if self._site.fleet.are_real else self._started(Mode.MIGRATION)
        reason = reason or self._site.until(_is_copied, _COPY_S, "the copy to KRaft")
        log = self._site.controllers.log
        if log.skips_copy:
            reason = f"a controller finds /migration, skips the copy, and writes to ZooKeeper: {log.writes}"
        return _Outcome(reason, f"{log.copied_records or 'no'} records")

    def _sync(self) -> _Outcome:
        reason = self._site.until(lambda log: log.is_dual_write, _SYNC_S, "the controller to write to both sides")
        reason = reason or self._active(self._site.broker_ids) or self._write_topic()
        return _Outcome(reason, f"writes to ZooKeeper: {self._site.controllers.log.writes or 'unknown'}")

    def _write_topic(self) -> str:
        """Create and delete a topic. Both changes must reach ZooKeeper; returns why they did not."""
        path = topic_path(_TOPIC)
        if refused := self._site.create_topic(_TOPIC):
            return f"the controller refused a new topic: {refused}"
        if reason := self._site.until(lambda _: self._site.exists(path), _WRITE_S, "a new topic in ZooKeeper"):
            return f"a new topic did not arrive in ZooKeeper: {reason}"
        if refused := self._site.delete_topic(_TOPIC):
            return f"the controller refused to delete a topic: {refused}"
        if reason := self._site.until(lambda _: not self._site.exists(path), _WRITE_S, "a topic to leave ZooKeeper"):
            return f"a deleted topic stayed in ZooKeeper: {reason}"
        return ""

    def _move(self) -> _Outcome:
        return _Outcome(self._restarted(Mode.KRAFT, is_active=True), f"{len(self._site.broker_ids)} brokers")

    def _finalize(self) -> _Outcome:
        orders = ", ".join(f"{name} {count}" for name, count in sorted(self._site.orders.items()))
        self._site.controllers.stop()
        before = self._site.fleet.heartbeats()
        self._site.controllers.start(None)
        reason = self._site.until(lambda log: log.is_finalized, _START_S, "the end of the migration")
        reason = reason or self._site.until(
            lambda _: all(count > before[broker_id] for broker_id, count in self._site.fleet.heartbeats().items()),
            _BROKER_S, "heartbeats that the restarted controllers confirm",
        )  # fmt: skip
        reason = reason or self._active(self._site.broker_ids)
        return _Outcome(reason, f"orders to stand-ins: {orders}" if orders else "")

    # --- back ---

    def _move_back(self) -> _Outcome:
        return _Outcome(self._restarted(Mode.MIGRATION, is_active=True), f"{len(self._site.broker_ids)} brokers")

    def _roll_back(self) -> _Outcome:
        """Roll back in Kafka's order: controllers first, then /controller, then /migration."""
        self._site.controllers.stop()
        self._site.delete(CONTROLLER)
        self._site.delete(MIGRATION)
        note, reason = "the brokers can return to a controller of ZooKeeper", ""
        if self._site.fleet.are_real:
            note, reason = "the brokers have returned to a controller of ZooKeeper", self._restarted(Mode.ZOOKEEPER)
        new = [each for each in traps(self._site.client) if each.rule.name not in self._known_traps]
        problems = (f"trap {each.rule.name}: {sentence}" for each in new for sentence in each.seen)
        return _Outcome(reason, note, tuple(problems))

    # --- brokers ---

    def _started(self, mode: Mode) -> str:
        """Start all brokers at once. Returns why they have not started."""
        fleet = self._site.fleet
        for broker_id in self._site.broker_ids:
            fleet.start(broker_id, mode)
        return self._site.until(
            lambda _: all(fleet.has_started(broker_id) for broker_id in self._site.broker_ids), _BROKER_S,
            f"the brokers in {mode} mode",
        )  # fmt: skip

    def _restarted(self, mode: Mode, *, is_active: bool = False) -> str:
        """Restart the brokers one after another. ``is_active``: each must be unfenced before the next one leaves."""
        fleet = self._site.fleet
        for broker_id in self._site.broker_ids:
            fleet.leave(broker_id, mode)
            reason = self._site.until(partial(self._has_left, broker_id), _BROKER_S, f"broker {broker_id}")
            if reason:
                return f"broker {broker_id} cannot stop: {reason}"
            fleet.start(broker_id, mode)
            reason = self._site.until(partial(self._has_started, broker_id), _BROKER_S, f"broker {broker_id}")
            if reason := reason or (self._active([broker_id]) if is_active else ""):
                return f"broker {broker_id} in {mode} mode: {reason}"
        return ""

    def _has_left(self, broker_id: int, _: ControllerLog) -> bool:
        return self._site.fleet.has_left(broker_id)

    def _has_started(self, broker_id: int, _: ControllerLog) -> bool:
        return self._site.fleet.has_started(broker_id)

    def _active(self, broker_ids: Sequence[int]) -> str:
        """Wait until the brokers are active. Returns the reason if they are not."""
        fleet = self._site.fleet
        return self._site.until(
            lambda _: all(fleet.is_active(broker_id) for broker_id in broker_ids), _BROKER_S,
            "the brokers to be unfenced",
        )  # fmt: skip
