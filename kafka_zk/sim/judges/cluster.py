"""Judges of a run. Each checks one promise against the history and returns sentences about violations.

They are tested with planted violations.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.events import ControllerElected, TopicDeleted
from kafka_zk.broker.replica.events import RoleChanged
from kafka_zk.sim.judges import zookeeper_group
from kafka_zk.sim.world.history import Acked, Chosen, Fact, Found, HandedOut, Happened, Lifted, Sent, Stored


def records(facts: Iterable[Fact], logs: Mapping[TopicPartition, list[Found]], durable: Collection[str]) -> list[str]:
    """Check that acknowledged records are at their offsets, that no record appears twice, that each was sent by a
    producer, and that the records of one producer are in order.

    ``logs``: all records of existing partitions at the end. ``durable``: topics that lose nothing in a power loss;
    other topics may lose the end of a log.
    """
    facts = list(facts)
    broken = []
    sent = {(fact.tp, fact.value): number for number, fact in enumerate(facts) if isinstance(fact, Sent)}
    deleted = {
        fact.event.topic: number
        for number, fact in enumerate(facts)
        if isinstance(fact, Lifted) and isinstance(fact.event, TopicDeleted)
    }
    spared = any(isinstance(fact, Happened) and " power" in fact.text for fact in facts)
    for tp, found in logs.items():
        at = {each.offset: each.value for each in found}
        values = [each.value for each in found]
        for value, count in Counter(values).items():
            if count > 1:
                broken.append(f"{tp}: {value} is in the log {count} times")
        for value in values:
            if (tp, value) not in sent:
                broken.append(f"{tp}: {value} was never sent there")
        broken += _out_of_order(tp, values, sent)
        for fact in facts[deleted.get(tp.topic, 0) :]:  # the records of a deleted topic of this name may be gone
            if isinstance(fact, Acked) and fact.tp == tp and at.get(fact.offset) != fact.value:
                if tp.topic not in durable and spared:
                    continue  # if a power loss removed the record, a later one may have its offset
                broken.append(
                    f"{tp}: {fact.value} was acknowledged at {fact.offset}, where {at.get(fact.offset, 'nothing')} is"
                )
    return broken


def _out_of_order(tp: TopicPartition, values: list[str], sent: Mapping[tuple[TopicPartition, str], int]) -> list[str]:
    broken = []
    last: dict[str, str] = {}
    for value in values:
        producer = value.rpartition(":")[0]
        before = last.get(producer)
        if before is not None and sent.get((tp, before), -1) > sent.get((tp, value), -1):
            broken.append(f"{tp}: {value} comes after {before}, which was sent later")
        last[producer] = value
    return broken


def last_values(
    facts: Iterable[Fact], logs: Mapping[TopicPartition, list[Found]], key_of: Callable[[str], str]
) -> list[str]:
    """Check compacted logs: an acknowledged record is at its offset, or a later record of its key exists. The other
    checks of ``records`` apply, too. ``logs``: all records of durable, compacted partitions.
    """
    facts = list(facts)
    broken = records([fact for fact in facts if not isinstance(fact, Acked)], logs, ())
    for tp, found in logs.items():
        at = {each.offset: each.value for each in found}
        last = {key_of(each.value): each.offset for each in sorted(found, key=lambda each: each.offset)}
        for fact in facts:
            if not isinstance(fact, Acked) or fact.tp != tp or at.get(fact.offset) == fact.value:
                continue
            if fact.offset in at or last.get(key_of(fact.value), -1) < fact.offset:
                broken.append(f"{tp}: {fact.value}@{fact.offset} is gone, and no later record of its key is there")
    return broken


def seen(facts: Iterable[Fact], logs: Mapping[TopicPartition, list[Found]], durable: Collection[str]) -> list[str]:
    """Check that what a consumer received is in the log at the end."""
    broken = []
    there = {tp: {each.offset: each.value for each in found} for tp, found in logs.items() if tp.topic in durable}
    for fact in facts:
        if not isinstance(fact, HandedOut) or fact.tp not in there:
            continue
        at = there[fact.tp]
        if at.get(fact.offset) != fact.value:
            broken.append(
                f"{fact.time_ms}: {fact.actor} got {fact.value} at {fact.tp}@{fact.offset}, where"
                f" {at.get(fact.offset, 'nothing')} is now"
            )
    return broken


def controllers(facts: Iterable[Fact]) -> list[str]:
    """Check that each epoch has one controller and that epochs increase."""
    broken = []
    elected: dict[int, str] = {}
    for fact in facts:
        if isinstance(fact, Lifted) and isinstance(fact.event, ControllerElected):
            epoch, actor = fact.event.epoch, fact.event.actor
            if epoch in elected and elected[epoch] != actor:
                broken.append(f"{fact.time_ms}: {actor} was elected in epoch {epoch}, which is {elected[epoch]}'s")
            if elected and epoch < max(elected):
                broken.append(f"{fact.time_ms}: {actor} was elected in epoch {epoch} after epoch {max(elected)}")
            elected[epoch] = actor
    return broken


def epochs(facts: Iterable[Fact]) -> list[str]:
    """Check that a running broker never returns to a partition's earlier leader epoch while the topic exists."""
    broken = []
    known: dict[tuple[str, TopicPartition], int] = {}
    for fact in facts:
        if isinstance(fact, Happened):
            for key in [key for key in known if f" {key[0]}" in fact.text]:
                del known[key]  # the broker was restarted, perhaps with an older disk
        elif isinstance(fact, Lifted) and isinstance(fact.event, TopicDeleted):
            for key in [key for key in known if key[1].topic == fact.event.topic]:
                del known[key]  # a new topic of this name begins at 0
        elif isinstance(fact, Lifted) and isinstance(fact.event, RoleChanged) and fact.event.refusal is None:
            event = fact.event
            before = known.get((event.actor, event.partition), -1)
            if event.leader_epoch < before:
                broken.append(
                    f"{fact.time_ms}: {event.actor} took epoch {event.leader_epoch} of {event.partition} after {before}"
                )
            known[event.actor, event.partition] = event.leader_epoch
    return broken


def group(facts: Iterable[Fact], log_ends: Mapping[TopicPartition, int] | None) -> list[str]:
    """Check that there is one owner at a time, offsets never decrease, and every record is delivered at least once."""
    seen: list[zookeeper_group.Fact] = []
    for fact in facts:
        match fact:
            case Lifted():
                seen.extend(each._replace(time_ms=fact.time_ms) for each in zookeeper_group.facts_of(fact.event))
            case HandedOut(generation=-1):
                kind = zookeeper_group.Kind.HANDED_OUT
                seen.append(zookeeper_group.Fact(fact.time_ms, fact.actor, kind, fact.tp, fact.offset))
            case Chosen():
                kind = zookeeper_group.Kind.CHOSEN
                seen.append(zookeeper_group.Fact(fact.time_ms, fact.actor, kind, fact.tp, fact.offset))
            case Stored():
                seen.append(zookeeper_group.Fact(fact.time_ms, "", zookeeper_group.Kind.STORED, fact.tp, fact.offset))
    return zookeeper_group.violations(seen, log_ends)


def by_partition(found: Iterable[Found]) -> dict[TopicPartition, list[Found]]:
    """The records of each partition, sorted by offset."""
    logs: defaultdict[TopicPartition, list[Found]] = defaultdict(list)
    for each in sorted(found, key=lambda each: (each.tp, each.offset)):
        logs[each.tp].append(each)
    return dict(logs)
