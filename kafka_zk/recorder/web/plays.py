"""Finds the entries of an episode in a recording, to be shown in slow motion (a *play*)."""

from collections.abc import Callable, Iterable, Iterator

from kafka_zk.rebalance.events import CommitRefused
from kafka_zk.recorder.recording.entries import CREATED, Entry
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.timeline.event_codec import UnknownEvent, decode
from kafka_zk.recorder.web.fenced_writes import controllers, fences, stale_writer
from kafka_zk.recorder.web.group_members import group_of_member, zookeeper_groups
from kafka_zk.recorder.web.slow_motion import AROUND_MS, MOST_LANES, Play, group_of, involved, slow_motion
from kafka_zk.registry.znodes.controller import CONTROLLER_EPOCH

_MOST_ENTRIES = 5_000
_MOST_EPOCHS = 100
_MOST_CHANGES = 10
"""Maximum number of a znode's changes that are searched; later changes may be recorded before an earlier refusal."""
Causes = Callable[[Entry], Iterable[Entry]]


def episode_play(recording: Recording, subject: str, from_ms: int, to_ms: int, causes: Causes) -> Play:
    """The episode's events, and the causes of the first event of each process. ``causes``: an entry's causes."""
    entries, group_id = recording.entries, group_of(subject)
    groups = _groups(recording, entries.seq_at(to_ms)) | {group_id} if group_id else frozenset()
    during = entries.between(from_ms, to_ms + AROUND_MS, _MOST_ENTRIES)
    led = [cause.time_ms for each in involved(during, subject, to_ms, groups)[:1] for cause in causes(each)]
    begin_ms = max(from_ms - AROUND_MS, min([*led, from_ms]))
    before = entries.between(begin_ms, from_ms - 1, _MOST_ENTRIES)
    found = involved([*before, *during], subject, to_ms, groups)
    firsts: dict[str, Entry] = {}
    for each in found:
        firsts.setdefault(each.actor, each)
    play = slow_motion([*_with_causes(list(firsts.values())[:MOST_LANES], causes), *found], group_id)
    return play._replace(is_whole=play.is_whole and max(len(before), len(during)) < _MOST_ENTRIES)


def fenced_play(recording: Recording, refusal: Entry, to_ms: int, causes: Causes) -> Play:
    """The writes of one writer that were refused until ``to_ms``, the changes that made them stale, and the effects."""
    try:
        event = decode(refusal.document)
    except UnknownEvent:
        return slow_motion([])
    entries, seq, writer = recording.entries, refusal.seq, stale_writer(refusal)
    group_id = group_of_member(refusal.actor, _groups(recording, seq))
    changes = [each for path in fences(event, group_id) for each in _handover(recording, path, refusal)]
    stale = controllers(entries.changes_of(CONTROLLER_EPOCH, seq, _MOST_EPOCHS))
    again = entries.fenced(refusal.time_ms, to_ms, _MOST_ENTRIES)
    effects = [each for each in entries.effects(seq, _MOST_ENTRIES) if each.time_ms <= refusal.time_ms + AROUND_MS]
    led = _with_causes([*changes, refusal], causes)
    return slow_motion([*led, *(each for each in again if stale_writer(each) == writer), *effects], group_id, stale)


def _groups(recording: Recording, seq: int) -> frozenset[str]:
    return zookeeper_groups(recording.znodes.after(seq).znodes)


def _handover(recording: Recording, path: str, refusal: Entry) -> list[Entry]:
    """The last change of a znode before the refusal; if that created the znode, also the deletion before it.

    The refusal may be recorded after later changes. A member's own changes did not make its write stale.
    """
    recorded = recording.entries.changes_of(path, refusal.seq, _MOST_CHANGES)
    found = [each for each in recorded if each.time_ms <= refusal.time_ms] or recorded
    if not found or (found[0].actor == refusal.actor and refusal.kind == CommitRefused.__name__):
        return []
    return found[:2] if found[0].kind == CREATED else found[:1]


def _with_causes(entries: Iterable[Entry], causes: Causes) -> Iterator[Entry]:
    for entry in entries:
        yield from causes(entry)
        yield entry
