"""Finds the entries of an episode's play in a recording."""

from collections.abc import Callable, Iterable, Iterator

from kafka_zk.recorder.recording.entries import CREATED, Entry
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.timeline.event_codec import UnknownEvent, decode
from kafka_zk.recorder.web.fenced_writes import controllers, fences, group_of_member
from kafka_zk.recorder.web.slow_motion import AROUND_MS, MOST_LANES, Play, group_of, involved, slow_motion
from kafka_zk.registry.znodes.controller import CONTROLLER_EPOCH

_MOST_ENTRIES = 5_000
_MOST_EPOCHS = 100
Causes = Callable[[Entry], Iterable[Entry]]


def episode_play(recording: Recording, subject: str, from_ms: int, to_ms: int, causes: Causes) -> Play:
    """Its events, with what led to the first one of each process. ``causes``: returns an entry's chain of causes."""

    def found_from(begin_ms: int) -> list[Entry]:
        window = recording.entries.between(begin_ms, to_ms + AROUND_MS, _MOST_ENTRIES)
        return involved(window, subject, to_ms)

    led = [cause.time_ms for each in found_from(from_ms)[:1] for cause in causes(each)]
    found = found_from(max(from_ms - AROUND_MS, min([*led, from_ms])))
    firsts = list({each.actor: each for each in reversed(found)}.values())[-MOST_LANES:]
    return slow_motion([*_with_causes(firsts, causes), *found], group_of(subject))


def fenced_play(recording: Recording, refusal: Entry, causes: Causes) -> Play:
    """The write that was refused, what made it stale, and what came of it."""
    try:
        event = decode(refusal.document)
    except UnknownEvent:
        return slow_motion([])
    entries, seq = recording.entries, refusal.seq
    group_id = group_of_member(refusal.actor, recording.znodes.after(seq).znodes)
    changes = [each for path in fences(event, group_id) for each in _handover(recording, path, seq)]
    stale = controllers(entries.changes_of(CONTROLLER_EPOCH, seq, _MOST_EPOCHS))
    effects = [each for each in entries.effects(seq, _MOST_ENTRIES) if each.time_ms <= refusal.time_ms + AROUND_MS]
    led = _with_causes([*changes, refusal], causes)
    return slow_motion([*led, *effects], group_id, stale)


def _handover(recording: Recording, path: str, seq: int) -> list[Entry]:
    """The last change of a znode, and if that created the znode, how it was deleted before."""
    found = recording.entries.changes_of(path, seq, 2)
    return found if found and found[0].kind == CREATED else found[:1]


def _with_causes(entries: Iterable[Entry], causes: Causes) -> Iterator[Entry]:
    for entry in entries:
        yield from causes(entry)
        yield entry
