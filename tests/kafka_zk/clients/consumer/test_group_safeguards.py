"""The judges of the schedules can fail: each test removes one safeguard from the source, and some seed must detect it.
"""

from __future__ import annotations

import inspect

import pytest

from kafka_zk.clients.consumer import assignors as assignors_module
from kafka_zk.clients.consumer import classic_member as member_module
from kafka_zk.clients.consumer import member_lease as lease_module
from tests.changed_source import compiled
from tests.kafka_zk.clients.consumer import group_world
from tests.kafka_zk.clients.consumer.test_group_schedules import storm

pytestmark = pytest.mark.slow

SEEDS = 150

SAFEGUARDS = {
    "nothing is handed out without a lease": (
        "return now_ms < self._until_ms",
        "return True",
    ),
    "the lease counts from when the request was sent": (
        "self._lease.renew(sent_ms, is_calm=code is ErrorCode.NONE)",
        "self._lease.renew(now_ms, is_calm=code is ErrorCode.NONE)",
    ),
    "who does not join a rebalance in time has no lease": (
        "until_ms = min(sent_ms + self._session_timeout_ms, self._calm_ms + self._rebalance_timeout_ms)",
        "until_ms = sent_ms + self._session_timeout_ms",
    ),
    "an eager member gives everything back before it joins": (
        "if self._is_cooperative or not self.owned:",
        "if True:",
    ),
    "what moves goes to nobody before it was given back": (
        "if owned.get(tp, member_id) == member_id",
        "if True",
    ),
    "who gave partitions back joins again": (
        'self._rejoin("partitions were given back")',
        "pass",
    ),
    "who is asked to rebalance joins again": (
        'if self.state is MemberState.STABLE:\n                self._rejoin("the group rebalances")\n'
        "        elif code is not ErrorCode.NONE:",
        "pass\n        elif code is not ErrorCode.NONE:",
    ),
    "an unknown member forgets its id": (
        "self.member_id, self.generation_id = UNKNOWN_MEMBER_ID, NO_GENERATION\n        self._lease.end()",
        "self._lease.end()",
    ),
    "a coordinator that is gone is looked for": (
        "if code in _COORDINATOR_GONE:\n            self._lose_coordinator()\n\n",
        "pass\n\n",
    ),
    "new partitions are assigned": (
        "if any(counts.get(topic, 0) != count for topic, count in self.watched_topics.items()):",
        "if False:",
    ),
    "who has lost its membership has lost its partitions": (
        "        self._lose_all()\n        self.member_id, self.generation_id",
        "        self.member_id, self.generation_id",
    ),
}

FOUND_BY = {
    "nothing is handed out without a lease": 48,
    "the lease counts from when the request was sent": 26,
    "who does not join a rebalance in time has no lease": 48,
    "what moves goes to nobody before it was given back": 12,
    "who gave partitions back joins again": 110,
}
"""Safeguards whose removal few seeds detect -> a seed that detects it, which is tried first."""


def without(safeguard: str, patch: pytest.MonkeyPatch) -> None:
    """Run the schedules on the source without this safeguard."""
    text, replacement = SAFEGUARDS[safeguard]
    sources = {module: inspect.getsource(module) for module in (assignors_module, lease_module, member_module)}
    assert sum(source.count(text) for source in sources.values()) == 1, f"the source has no single {text!r}"
    changed = {module: compiled(module, source.replace(text, replacement)) for module, source in sources.items()}
    member = changed[member_module]
    vars(member)["ASSIGNORS"] = changed[assignors_module].ASSIGNORS
    vars(member)["MemberLease"] = changed[lease_module].MemberLease
    patch.setattr(group_world, "ClassicMember", member.ClassicMember)


def is_found(seed: int) -> bool:
    world = group_world.World(seed, lose=0.05, fail_store=0.05, delay=0.1)
    try:
        storm(world)
    except (AssertionError, KeyError):
        return True
    return bool(world.broken) or bool(world.at_rest())


@pytest.mark.parametrize("safeguard", SAFEGUARDS)
def test_a_missing_safeguard_is_found(safeguard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without(safeguard, monkeypatch)
    assert any(is_found(seed) for seed in (FOUND_BY.get(safeguard, 0), *range(SEEDS)))
