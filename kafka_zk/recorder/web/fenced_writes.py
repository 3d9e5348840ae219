"""Fenced writes: requests of old controllers that brokers ignored, and commits of members that own nothing. Pure."""

from collections.abc import Hashable, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from kafka_zk.base.events import Event
from kafka_zk.broker.replica.events import ControllerIgnored
from kafka_zk.rebalance.events import CommitRefused
from kafka_zk.rebalance.ownership import IN_DOUBT
from kafka_zk.recorder.recording.documents import data_of
from kafka_zk.recorder.recording.entries import Entry
from kafka_zk.recorder.recording.session_names import process_of
from kafka_zk.recorder.timeline.names import counted
from kafka_zk.recorder.web.episodes import NEAR_MS, Episode
from kafka_zk.recorder.web.narration import line
from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.registry.znodes.consumers import offset_path, owner_path
from kafka_zk.registry.znodes.controller import CONTROLLER, CONTROLLER_EPOCH, decode_epoch

FENCED = "fenced write"
"""The subject of the episodes of fenced writes."""


class FencedWrites(NamedTuple):
    """Refusals of one writer's writes that follow each other closely. ``seq``: the first one's number."""

    episode: Episode
    seq: int


def fenced_writes(refusals: Iterable[Entry]) -> list[FencedWrites]:
    """``refusals``: sorted by time."""
    together: dict[Hashable, list[Entry]] = {}
    found: list[list[Entry]] = []
    for entry in refusals:
        if entry.document.get("reason") == IN_DOUBT.reason:
            continue  # the commit was not tried, and the member is still the owner
        key = stale_writer(entry)
        if key not in together or entry.time_ms - together[key][-1].time_ms > NEAR_MS:
            together[key] = []
            found.append(together[key])
        together[key].append(entry)
    return [FencedWrites(_told(each), each[0].seq) for each in found]


def stale_writer(refusal: Entry) -> Hashable:
    """A key, equal for all refusals of one writer's writes: an old controller sends requests to many brokers."""
    epoch = refusal.document.get("controller_epoch")
    return refusal.kind, str(epoch) if refusal.kind == ControllerIgnored.__name__ else refusal.actor


def _told(refusals: list[Entry]) -> Episode:
    first, last = refusals[0], refusals[-1]
    more = f", and {counted(len(refusals) - 1, 'more refusal')}" if len(refusals) > 1 else ""
    return Episode(FENCED, f"{first.actor}: {line(first)}{more}", first.time_ms, last.time_ms, 0, lasts=False)


def fences(refusal: Event, group_id: str) -> tuple[str, ...]:
    """The znodes whose last changes made the write stale.

    Args:
        refusal: the event of a fenced write.
        group_id: the group of the member; "" if unknown.
    """
    if isinstance(refusal, ControllerIgnored):
        return CONTROLLER, CONTROLLER_EPOCH
    if not group_id or not isinstance(refusal, CommitRefused):
        return ()
    topic, partition = refusal.partition
    return owner_path(group_id, topic, partition), offset_path(group_id, topic, partition)


def controllers(epoch_changes: Iterable[Entry]) -> Mapping[int, str]:
    """The process that wrote each epoch. ``epoch_changes``: the changes of ``/controller_epoch``."""
    found = {}
    for each in epoch_changes:
        with suppress(InvalidZnode):
            found[decode_epoch(data_of((each.document["after"] or [None])[0]))] = process_of(each.actor)
    return found
