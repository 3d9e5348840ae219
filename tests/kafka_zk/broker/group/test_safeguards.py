"""The judges of the schedules can fail: each test removes one safeguard from the source, and at least one seed detects
it.
"""

import inspect
import sys

import pytest

from kafka_zk.broker.group import group as group_module
from kafka_zk.broker.group import members as members_module
from kafka_zk.broker.group import metadata as metadata_module
from tests.changed_source import compiled
from tests.kafka_zk.broker.group import clients as clients_module
from tests.kafka_zk.broker.group.test_schedules import storm

pytestmark = pytest.mark.slow

SEEDS = 300

SAFEGUARDS = {
    "a superseded JoinGroup is answered once": (
        "previous, member.joining = member.joining, reply\n        self.joining_count += (reply is not None)"
        " - (previous is not None)",
        "previous, member.joining = member.joining, reply\n        self.joining_count += reply is not None",
    ),
    "a generation's assignment is for that generation only": (
        "if self.state is not _COMPLETING or then.generation_id != self.generation_id:",
        "if self.state is not _COMPLETING:",
    ),
    "who did not rejoin in time is removed": (
        "if member.joining is None and member.group_instance_id is None:",
        "if False:",
    ),
    "a dead leader is replaced": (
        "if self.leader is None or self._members[self.leader].joining is not None:",
        "if True:",
    ),
    "who leaves leads no longer": (
        "self.leader = next(iter(self._members), None)",
        "self.leader = member_id if self._members else None",
    ),
    "members that wait for an assignment are told of the next rebalance": (
        "self._propagate({}, ErrorCode.REBALANCE_IN_PROGRESS, now)",
        "pass",
    ),
    "a leader that never syncs is not waited for": (
        "if self._sync_deadline_ms is not None and self._sync_deadline_ms <= now_ms:",
        "if False:",
    ),
    "a member without heartbeats fails": (
        "if not member.has_pending_request:",
        "if False:",
    ),
    "an id that was given and not used is not waited for": (
        "if until_ms <= now_ms]",
        "if False]",
    ),
    "a static member that comes back fences the old one": (
        "if current is not None and current != member_id:",
        "if False:",
    ),
    "one who joins while the others have is waited for": (
        "return self.joining_count == len(self._members) and not self.pending",
        "return True",
    ),
    "an assignment that could not be stored is not given out": (
        "self._rebalance(Event.ASSIGNMENT_NOT_STORED, f\"the assignment could not be stored: {error.name}\", now)\n"
        "            return",
        "pass",
    ),
}


def without(safeguard: str, patch: pytest.MonkeyPatch) -> None:
    """Run the schedules on the source without this safeguard."""
    text, replacement = SAFEGUARDS[safeguard]
    sources = {module: inspect.getsource(module) for module in (members_module, metadata_module, group_module)}
    assert sum(source.count(text) for source in sources.values()) == 1, f"the source has no single {text!r}"
    with patch.context() as imports:
        for module, source in sources.items():
            changed = compiled(module, source.replace(text, replacement))
            imports.setitem(sys.modules, module.__name__, changed)
    patch.setattr(clients_module, "Group", changed.Group)


def is_found(seed: int) -> bool:
    world = clients_module.World(seed, lose=0.1, fail_store=0.1, delay=0.2)
    try:
        storm(world)
    except (AssertionError, KeyError, StopIteration, IndexError):
        return True
    return bool(world.broken) or not world.is_at_rest()


@pytest.mark.parametrize("safeguard", SAFEGUARDS)
def test_a_missing_safeguard_is_found(safeguard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without(safeguard, monkeypatch)
    assert any(is_found(seed) for seed in range(SEEDS))
