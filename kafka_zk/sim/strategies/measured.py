"""Measures the cost of a change: which member owns which partitions when, each member's silences, and the waits of
records. Pure. All times are in ms since the change.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from kafka_zk.sim.strategies.members import Processed
from kafka_zk.sim.strategies.play import AFTER_MS, BEFORE_MS, Acknowledged, Observed

SILENCE_MS = 60
"""A shorter silence is not shown, because a fetch also takes time."""
FEW = 5
"""The group has caught up when at most this many records wait."""
WAIT_MS = 1_000
"""Records that waited longer are counted."""
COUNT_EVERY_MS = 100


class Owned(NamedTuple):
    partition: int
    member: str
    from_ms: int
    to_ms: int


class Lane(NamedTuple):
    """A member. It is silent while it receives nothing although records wait in the partitions that it read last, and
    from joining until its first record. ``silences``: (from, to) of each silence of at least SILENCE_MS.
    ``longest_ms``: the longest silence after the change. ``busy``: times in which the member processed a record that
    took longer than others.
    """

    member: str
    from_ms: int
    to_ms: int
    silences: tuple[tuple[int, int], ...]
    longest_ms: int
    busy: tuple[tuple[int, int], ...]


class Measured(NamedTuple):
    """``waiting``: number of records that no member has received yet, sampled every COUNT_EVERY_MS; the record that a
    killed member held counts as not received. ``waited``: how many acknowledged records waited longer than WAIT_MS.
    ``longest_wait_ms``: the longest wait; a wait that was not over counts until the end. ``caught_up_ms``: the time
    from which on at most FEW records waited; None if the group did not catch up. ``twice``: records that were processed
    more than once.
    """

    owned: tuple[Owned, ...]
    lanes: tuple[Lane, ...]
    waiting: tuple[int, ...]
    waited: int
    longest_wait_ms: int
    caught_up_ms: int | None
    twice: int


class _Wait(NamedTuple):
    """The wait of one record, from its acknowledgement until a member receives it, or until AFTER_MS."""

    partition: int
    from_ms: float
    to_ms: float

    @property
    def lasted_ms(self) -> float:
        return self.to_ms - self.from_ms


def measured(observed: Observed) -> Measured:
    first: dict[str, Processed] = {}
    for each in sorted(observed.processed):
        first.setdefault(each.value, each)
    waits = [_wait(each, first.get(each.value)) for each in observed.acknowledged]
    shown = [each for each in waits if each.to_ms > -BEFORE_MS]
    waiting = tuple(_waiting(waits))
    return Measured(
        tuple(_owned(observed.owned)),
        tuple(_lane(observed, shown, name) for name in sorted(observed.joined)),
        waiting,
        sum(each.lasted_ms > WAIT_MS for each in shown),
        max((round(each.lasted_ms) for each in shown), default=0),
        _caught_up_ms(waiting),
        len(observed.processed) - len(first),
    )


def _owned(samples: Sequence[tuple[float, Mapping[str, tuple[int, ...]]]]) -> Iterator[Owned]:
    """Spans in the order of partitions and times."""
    spans: list[Owned] = []
    holds: dict[tuple[int, str], int] = {}
    for time_ms, now in [*((round(time_ms), now) for time_ms, now in samples), (AFTER_MS, {})]:
        held = {(partition, member) for member, partitions in now.items() for partition in partitions}
        for key in holds.keys() - held:
            spans.append(Owned(*key, holds.pop(key), time_ms))
        for key in held - holds.keys():
            holds[key] = time_ms
    yield from sorted(spans, key=lambda each: (each.partition, each.from_ms, each.member))


def _wait(record: Acknowledged, processed: Processed | None) -> _Wait:
    to_ms = AFTER_MS if processed is None else processed.began_ms
    return _Wait(record.partition, record.time_ms, max(record.time_ms, to_ms))


def _waiting(waits: Sequence[_Wait]) -> Iterator[int]:
    for time_ms in range(-BEFORE_MS, AFTER_MS, COUNT_EVERY_MS):
        yield sum(each.from_ms <= time_ms < each.to_ms for each in waits)


def _caught_up_ms(waiting: Sequence[int]) -> int | None:
    change = BEFORE_MS // COUNT_EVERY_MS
    last = max((index for index, count in enumerate(waiting) if index >= change and count > FEW), default=change - 1)
    return None if last == len(waiting) - 1 else (last + 1 - change) * COUNT_EVERY_MS


def _lane(observed: Observed, waits: Sequence[_Wait], member: str) -> Lane:
    from_ms, to_ms = observed.joined[member], observed.gone.get(member, AFTER_MS)
    own = sorted(each for each in observed.processed if each.member == member and each.ended_ms > -BEFORE_MS)
    silences = [
        (round(_begin(observed, waits, member, end_ms, begin_ms)), round(begin_ms))
        for end_ms, begin_ms in _gaps(own, from_ms, to_ms)
    ]
    usual_ms = min((each.ended_ms - each.began_ms for each in own), default=0)
    return Lane(
        member,
        round(from_ms),
        round(to_ms),
        tuple(each for each in silences if each[1] - each[0] >= SILENCE_MS),
        max((end - begin for begin, end in silences if end > 0), default=0),
        tuple(
            (round(each.began_ms), round(each.ended_ms)) for each in own if each.ended_ms - each.began_ms > 2 * usual_ms
        ),
    )


def _gaps(own: Sequence[Processed], from_ms: float, to_ms: float) -> Iterator[tuple[float, float]]:
    """The spans between two records; from joining until the first record; and from the last record until the end, if
    that is longer than any record takes.
    """
    if from_ms > -BEFORE_MS:
        yield from_ms, own[0].began_ms if own else to_ms
    yield from ((before.ended_ms, after.began_ms) for before, after in pairwise(own))
    if own and to_ms - own[-1].ended_ms > WAIT_MS:
        yield own[-1].ended_ms, to_ms


def _begin(observed: Observed, waits: Sequence[_Wait], member: str, from_ms: float, to_ms: float) -> float:
    """When a silence begins in a span without records; ``to_ms`` if there is no silence."""
    read: Collection[int] = ()
    for time_ms, now in observed.owned:
        if time_ms > from_ms:
            break
        read = now.get(member, ())
    if not read:
        return from_ms
    began = (each.from_ms for each in waits if each.partition in read and each.from_ms < to_ms and each.to_ms > from_ms)
    return max(from_ms, min(began, default=to_ms))
