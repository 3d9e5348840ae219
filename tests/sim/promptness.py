"""A judge of latency: records sent while nothing disturbs the cluster are acknowledged soon."""

from collections.abc import Collection, Iterable, Sequence
from math import inf

from kafka_zk.sim.campaign.faults import COMPOSED, LAG_S, OF_THE_STORE
from kafka_zk.sim.campaign.plan import PEACE, Fault
from kafka_zk.sim.world.history import Acked, Fact, Happened, Sent

COMPOSED_MS = 20_000
"""Maximum duration of a sequence of faults."""
RECOVERY_MS = 20_000
"""Time after a fault in which sessions end, leaders are elected, and replicas catch up."""


def in_time(
    facts: Iterable[Fact],
    disturbed: Collection[tuple[float, float]],
    limit_ms: float,
    again: Collection[float] = (),
) -> list[str]:
    """Check that records are acknowledged within ``limit_ms``, unless something disturbs the cluster in that time.

    ``disturbed``: intervals in ms. ``again``: times in ms at which the limit begins again for all waiting records.
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
    """The intervals in which faults may delay acknowledgements. A lagging follower and faults of an object store do
    not.
    """
    found = []
    for fact in facts:
        if not isinstance(fact, Happened):
            continue
        if (fault := _fault(fact.text)) is not None:
            if fault.kind not in ("lag", *OF_THE_STORE):
                lasts_ms = COMPOSED_MS if fault.kind in COMPOSED else fault.duration_ms
                found.append((fact.time_ms, fact.time_ms + lasts_ms + RECOVERY_MS))
        elif fact.text == PEACE:
            found.append((fact.time_ms, inf))
        elif fact.text.startswith("start "):
            found.append((fact.time_ms, fact.time_ms + RECOVERY_MS))
    return found


def reassigned(facts: Sequence[Fact]) -> list[float]:
    """The times of reassignments while a follower lags. A new leader epoch restarts the follower's lag time
    (Replica.resetReplicaState in Kafka 3.9), which delays records of that partition, and others in the same request.
    """
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
