"""A judge of time: what is sent while nothing disturbs a cluster is acknowledged soon."""

from collections.abc import Collection, Iterable, Sequence
from math import inf

from kafka_zk.sim.campaign.faults import COMPOSED, LAG_S
from kafka_zk.sim.campaign.plan import PEACE, Fault
from kafka_zk.sim.world.history import Acked, Fact, Happened, Sent

COMPOSED_MS = 20_000
"""How long a sequence of faults lasts."""
RECOVERY_MS = 20_000
"""After a fault: sessions end, leaders are elected, replicas catch up."""


def in_time(
    facts: Iterable[Fact],
    disturbed: Collection[tuple[float, float]],
    limit_ms: float,
    again: Collection[float] = (),
) -> list[str]:
    """A record is acknowledged within ``limit_ms``, unless something disturbs the cluster until then.

    ``disturbed``: from when to when, in ms. ``again``: when the time of all that wait begins again, in ms.
    """
    facts = list(facts)
    acked = {(fact.tp, fact.value): fact.time_ms for fact in facts if isinstance(fact, Acked)}
    broken = []
    for fact in facts:
        if not isinstance(fact, Sent):
            continue
        due_ms = _due_ms(fact.time_ms, limit_ms, again)
        if any(begin <= due_ms and fact.time_ms <= end for begin, end in disturbed):
            continue
        acked_ms = acked.get((fact.tp, fact.value), inf)
        if acked_ms > due_ms:
            after_ms = acked_ms - fact.time_ms
            broken.append(f"{fact.time_ms:.3f}: {fact.tp}: {fact.value} was acknowledged after {after_ms:.0f} ms")
    return broken


def _due_ms(sent_ms: float, limit_ms: float, again: Collection[float]) -> float:
    due_ms = sent_ms + limit_ms
    for at_ms in sorted(again):
        if sent_ms <= at_ms <= due_ms:
            due_ms = at_ms + limit_ms
    return due_ms


def disturbed(facts: Sequence[Fact]) -> list[tuple[float, float]]:
    """From when to when faults may keep a cluster from acknowledging records; a follower that lags does not."""
    found = []
    for fact in facts:
        if not isinstance(fact, Happened):
            continue
        if (fault := _fault(fact.text)) is not None:
            if fault.kind != "lag":
                lasts_ms = COMPOSED_MS if fault.kind in COMPOSED else fault.duration_ms
                found.append((fact.time_ms, fact.time_ms + lasts_ms + RECOVERY_MS))
        elif fact.text == PEACE:
            found.append((fact.time_ms, inf))
        elif fact.text.startswith("start "):
            found.append((fact.time_ms, fact.time_ms + RECOVERY_MS))
    return found


def reassigned(facts: Sequence[Fact]) -> list[float]:
    """When partitions were to be reassigned while a follower lags. With a new leader epoch its time begins again
    (Replica.resetReplicaState in Kafka 3.9), for what was sent to that partition, and to others in the same request."""
    found, lags_until_ms = [], -inf
    for fact in facts:
        if isinstance(fact, Happened):
            fault = _fault(fact.text)
            if fault is not None and fault.kind == "lag":
                lags_until_ms = fact.time_ms + LAG_S * 1_000
            elif fact.text.startswith("reassign ") and fact.time_ms < lags_until_ms:
                found.append(fact.time_ms)
    return found


def _fault(text: str) -> Fault | None:
    try:
        return Fault.parse(text)
    except ValueError:
        return None
