"""Judges of a broker group: generations, owners, committed offsets.

They check five promises. A partition has one owner per generation. A member delivers only records of partitions that it
owns, so two members never deliver records of one partition at the same time. Acknowledged commits are kept. Committed
offsets never decrease. Each record is delivered at least once.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.events import AssignmentCompleted
from kafka_zk.sim.world.history import Assigned, Committed, Fact, HandedOut, Kept, Lifted

Owned = Mapping[str, tuple[TopicPartition, ...]]


def generations(facts: Iterable[Fact], group_id: str, stored: Iterable[Assigned]) -> list[str]:
    """``stored``: the generations in ``__consumer_offsets``, in addition to those that coordinators reported."""
    facts = list(facts)
    told = [
        Assigned(fact.event.generation, fact.event.assignments)
        for fact in facts
        if isinstance(fact, Lifted) and isinstance(fact.event, AssignmentCompleted) and fact.event.group_id == group_id
    ]
    assigned: dict[int, Owned] = {}
    broken = []
    for generation, owned in [*stored, *told]:
        mine = {member: tuple(sorted(tps)) for member, tps in owned.items() if tps}
        if assigned.setdefault(generation, mine) != mine:
            broken.append(f"generation {generation} has two assignments: {assigned[generation]} and {mine}")
    for generation, owned in sorted(assigned.items()):
        for tp in sorted({tp for tps in owned.values() for tp in tps}):
            owners = [member for member, tps in owned.items() if tp in tps]
            if len(owners) > 1:
                broken.append(f"{tp} has {len(owners)} owners in generation {generation}: {', '.join(owners)}")
    return broken + _handed_out_by_owners(facts, assigned)


def _handed_out_by_owners(facts: Iterable[Fact], assigned: Mapping[int, Owned]) -> list[str]:
    broken = []
    last: dict[TopicPartition, tuple[int, str]] = {}
    for fact in facts:
        if not isinstance(fact, HandedOut) or fact.generation < 0:
            continue
        what = f"{fact.time_ms}: {fact.actor} handed out {fact.tp}@{fact.offset} in generation {fact.generation}"
        owner = _owner(fact.tp, assigned.get(fact.generation, {}))
        if owner not in (None, fact.actor):
            broken.append(f"{what}, in which {owner} owns it")
        elif owner is None and not _had(fact.actor, fact.tp, fact.generation, assigned):
            broken.append(f"{what}, but did not own it")
        generation, member = last.get(fact.tp, (-1, ""))
        if generation >= fact.generation and member != fact.actor:
            broken.append(f"{what} after {member} had done so in generation {generation}")
        last[fact.tp] = max((generation, member), (fact.generation, fact.actor))
    return broken


def _owner(tp: TopicPartition, owned: Owned) -> str | None:
    return next((member for member, tps in owned.items() if tp in tps), None)


def _had(member: str, tp: TopicPartition, generation: int, assigned: Mapping[int, Owned]) -> bool:
    """True if the member owned the partition in the previous generation: a cooperative member keeps a partition until
    it is revoked.
    """
    before = [number for number in assigned if number < generation]
    return bool(before) and _owner(tp, assigned[max(before)]) == member


def commits(facts: Iterable[Fact], kept: Sequence[Kept]) -> list[str]:
    broken = []
    last: dict[TopicPartition, int] = {}
    for tp, offset in kept:
        if offset < last.get(tp, -1):
            broken.append(f"the committed offset of {tp} went back from {last[tp]} to {offset}")
        last[tp] = offset
    written = set(kept)
    seen: defaultdict[TopicPartition, set[int]] = defaultdict(set)
    for fact in facts:
        match fact:
            case HandedOut() if fact.generation >= 0:
                seen[fact.tp].add(fact.offset)
            case Committed(tp=tp, offset=offset):
                if Kept(tp, offset) not in written:
                    broken.append(f"{fact.time_ms}: {fact.actor} had committed {tp}@{offset}, which is lost")
                skipped = set(range(offset)) - seen[tp]
                if skipped:
                    broken.append(
                        f"{fact.time_ms}: {tp}@{offset} was committed, but these offsets were never seen: "
                        f"{sorted(skipped)[:5]}"
                    )
    return broken


def all_handed_out(facts: Iterable[Fact], log_ends: Mapping[TopicPartition, int]) -> list[str]:
    seen: defaultdict[TopicPartition, set[int]] = defaultdict(set)
    for fact in facts:
        if isinstance(fact, HandedOut) and fact.generation >= 0:
            seen[fact.tp].add(fact.offset)
    missing = {tp: sorted(set(range(end)) - seen[tp]) for tp, end in log_ends.items()}
    return [
        f"{tp}: {len(offsets)} of {log_ends[tp]} records were never handed out by the broker group: {offsets[:5]}"
        for tp, offsets in missing.items()
        if offsets
    ]
