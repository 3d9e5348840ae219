"""Derives the phases of a migration to KRaft from ZooKeeper's transactions, with the rules of ``migration.phase``.
Pure.

The znodes alone do not show a broker's mode. They do not show that the migration was finalised either, because nothing
is written after that. A broker that leaves ``/brokers/ids`` during dual write counts as moved until it returns.
"""

from dataclasses import dataclass, field, replace

from kafka_zk.base.integers import NATURAL_INT32, decimal_integer
from kafka_zk.migration.facts import ClusterFacts, ControllerZnode, MigrationZnode, Unknown, ZooKeeperFacts
from kafka_zk.migration.phase import Phase, status
from kafka_zk.recorder.timeline.events import OBSERVER
from kafka_zk.recorder.timeline.outage_events import MigrationPhaseReached, OutageEvent
from kafka_zk.recorder.zookeeper_files.transaction_log import (
    Created,
    DataSet,
    Deleted,
    Restored,
    SessionClosed,
    Transaction,
)
from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.registry.znodes import brokers, migration
from kafka_zk.registry.znodes import controller as controllers

_NOT_LOGGED = Unknown("a transaction log does not show it", "kafka-zk migration status, while the cluster runs")
_UNKNOWN = ZooKeeperFacts(
    _NOT_LOGGED, None, _NOT_LOGGED, None, True, _NOT_LOGGED, _NOT_LOGGED, _NOT_LOGGED, _NOT_LOGGED, _NOT_LOGGED,
    _NOT_LOGGED, _NOT_LOGGED, _NOT_LOGGED, _NOT_LOGGED, _NOT_LOGGED, _NOT_LOGGED,
)  # fmt: skip


@dataclass(slots=True)
class _Znodes:
    """``registered``: broker id -> session."""

    controller: ControllerZnode | None = None
    controller_session: int = 0
    migration: MigrationZnode | None = None
    registered: dict[int, int] = field(default_factory=dict)


class MigrationPhases:
    """Knows the phase after each transaction. Memory is proportional to the brokers."""

    def __init__(self) -> None:
        self._znodes = _Znodes()
        self._phase = Phase.NONE
        self._in_dual_write: set[int] = set()  # brokers that were registered during dual write

    def step(self, transaction: Transaction) -> list[OutageEvent]:
        """At most one event: the phase after this transaction, if it differs from the previous one."""
        if not any([self._take(transaction, operation) for operation in transaction.operations]):
            return []
        phase, sign = self._found()
        if phase is self._phase:
            return []
        before, self._phase = self._phase, phase
        return [MigrationPhaseReached(transaction.time_ms, OBSERVER, "", transaction.zxid, before, phase, sign)]

    def _found(self) -> tuple[Phase, str]:
        znodes = self._znodes
        facts = replace(
            _UNKNOWN, controller=znodes.controller, migration=znodes.migration, registered=frozenset(znodes.registered)
        )  # fmt: skip
        found = status(ClusterFacts(facts, _NOT_LOGGED, _NOT_LOGGED, _NOT_LOGGED, {}, {}, ()))
        if isinstance(found.phase, Unknown):
            return self._phase, ""
        if found.phase is not Phase.DUAL_WRITE:
            return found.phase, found.sign
        self._in_dual_write |= znodes.registered.keys()
        if moved := sorted(self._in_dual_write - znodes.registered.keys()):
            return Phase.BROKERS_MOVING, f"no longer in /brokers/ids: {', '.join(map(str, moved))}"
        return found.phase, found.sign

    def _take(self, transaction: Transaction, operation: object) -> bool:
        """True if the phase may depend on the change."""
        match operation:
            case Created():
                return self._written(operation.path, operation.data, transaction.session * operation.ephemeral)
            case DataSet():
                return self._written(operation.path, operation.data, None)
            case Deleted():
                return self._removed(operation.path)
            case SessionClosed():
                return self._closed(transaction.session)
            case Restored():
                return any([self._written(path, each.data, each.session) for path, each in operation.znodes.items()])
        return False

    def _written(self, path: str, data: bytes | None, session: int | None) -> bool:
        """``session``: the owner of a new znode, 0 if it is persistent; None: the znode existed before."""
        try:
            if path == controllers.CONTROLLER:
                if session is not None:
                    self._znodes.controller_session = session
                claim, owner = controllers.decode(data), self._znodes.controller_session
                self._znodes.controller = ControllerZnode(claim.broker_id, claim.kraft_controller_epoch, bool(owner))
                return True
            if path == migration.MIGRATION:
                before, self._znodes.migration = self._znodes.migration, MigrationZnode(migration.decode(data))
                return before is None or before.is_copied != self._znodes.migration.is_copied
        except InvalidZnode:
            if path == migration.MIGRATION:
                self._znodes.migration = MigrationZnode(None)
            return True
        if (broker_id := _broker_id(path)) is not None and session is not None:
            self._znodes.registered[broker_id] = session
            return True
        return False

    def _removed(self, path: str) -> bool:
        if path == controllers.CONTROLLER:
            self._znodes.controller = None
        elif path == migration.MIGRATION:
            self._znodes.migration = None
            self._in_dual_write.clear()
        elif (broker_id := _broker_id(path)) is not None:
            self._znodes.registered.pop(broker_id, None)
        else:
            return False
        return True

    def _closed(self, session: int) -> bool:
        ended = [broker_id for broker_id, owner in self._znodes.registered.items() if owner == session]
        for broker_id in ended:
            del self._znodes.registered[broker_id]
        if self._znodes.controller is not None and self._znodes.controller_session == session:
            self._znodes.controller = None
            return True
        return bool(ended)


def _broker_id(path: str) -> int | None:
    parent, _, name = path.rpartition("/")
    return decimal_integer(name, NATURAL_INT32) if parent == brokers.BROKER_IDS else None
