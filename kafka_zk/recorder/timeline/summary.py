"""A group's rebalance in one line: cause, moves, longest silence and number of requests. Pure.

``ben's session ended: ben→anna t-2, ben→cleo t-3; 6 never stopped; silent 14 ms; 24 requests``
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from kafka_zk.base.types import TopicPartition
from kafka_zk.recorder.timeline.names import counted, listed, short_name
from kafka_zk.recorder.timeline.rebalances import CoordinatedBy, GroupRebalance

T = TypeVar("T")

_LISTED = 12
"""Maximum number of listed partitions; more are only counted."""
_DETAILED = 40
"""Maximum number of partitions that get their own line: those that were silent longest."""
_COUNTED = {
    CoordinatedBy.ZOOKEEPER: ("ZooKeeper requests", "watches fired"),
    CoordinatedBy.BROKER: ("requests to the coordinator", "heartbeats that announced it"),
}


class Summaries:
    def __init__(self, group_id: str) -> None:
        self._group_id = group_id

    def line(self, summary: GroupRebalance) -> str:
        return f"{self.why(summary)}: {'; '.join(self._parts(summary))}"

    def why(self, summary: GroupRebalance) -> str:
        """The cause in a few words, such as ``anna and ben joined, cleo left``."""
        joined, returned, left, expired, gone = (self.names(members) for members in summary.members)
        words = [
            f"{joined} joined" if joined else "",
            f"{returned} {_is(summary.members.returned)} back" if returned else "",
            f"{left} left" if left else "",
            f"the {_plural('session', summary.members.expired)} of {expired} ended" if expired else "",
            f"{gone} {_is(summary.members.gone)} gone" if gone else "",
        ]
        others = summary.causes[len([*summary.members.sentences()]) :]
        return ", ".join([word for word in words if word] + [self._shortened(cause) for cause in others]) or "unknown"

    def details(self, summary: GroupRebalance) -> Iterator[str]:
        """The details that the line omits: each silent partition, and requests and watches by member."""
        silences = sorted(summary.silences, key=lambda silence: -(silence.silent_ms or 0))
        for each in silences[:_DETAILED]:
            before, after = self.name(each.before), self.name(each.after or "")
            partition = listed([each.partition])
            path = f"{before} → {after}" if before != after else f"stays with {after}"
            since = " after its owner was seen to be gone" if each.noticed else ""
            if each.after is None:
                yield f"{partition} stopped with {before}; no member has taken it over"
            elif each.silent_ms is None:
                yield f"{partition} was taken over before its owner was seen to be gone ({path})"
            else:
                yield f"{partition} silent for {each.silent_ms} ms{since} ({path})"
        if len(silences) > _DETAILED:
            yield f"{counted(len(silences) - _DETAILED, 'more partition')} were silent for at most as long"
        told = zip(_COUNTED[summary.coordinated_by], (summary.requests, summary.notifications), strict=True)
        for what, counts in told:
            if counts:
                shares = ", ".join(f"{self.name(member)} {count}" for member, count in counts.items())
                yield f"{what}: {sum(counts.values())} ({shares})"

    def name(self, member: str) -> str:
        return short_name(self._group_id, member)

    def names(self, members: Sequence[str]) -> str:
        """``anna, ben and cleo``, sorted."""
        return enumerated(sorted(map(self.name, members)))

    def _parts(self, summary: GroupRebalance) -> Iterator[str]:
        many = len(summary.silences) + len(summary.first_owners) > _LISTED
        moves = list(self._moves(summary, many))
        yield ", ".join(moves) if moves else "nothing moves"
        if summary.stayed:
            yield f"{len(summary.stayed)} stopped and went on"
        if summary.untouched_count:
            yield f"{summary.untouched_count} never stopped"
        if summary.longest_silence_ms is not None:
            longest = "at most " if len(summary.silences) > 1 else ""
            yield f"silent {longest}{summary.longest_silence_ms} ms"
        if summary.requests:
            yield counted(sum(summary.requests.values()), "request")

    def _moves(self, summary: GroupRebalance, many: bool) -> Iterator[str]:
        handed_over = {each.partition: (each.before, each.after or "") for each in summary.moved}
        for (before, after), partitions in _grouped(handed_over).items():
            yield f"{self.name(before)}→{self.name(after)} {_partitions(partitions, many)}"
        for owner, partitions in _grouped(summary.first_owners).items():
            yield f"{self.name(owner)} starts {_partitions(partitions, many)}"
        if summary.orphaned:
            yield f"no member reads {_partitions([each.partition for each in summary.orphaned], many)}"

    def _shortened(self, cause: str) -> str:
        return " ".join(self.name(word) for word in cause.split(" "))


def enumerated(names: Sequence[str]) -> str:
    """``a, b and c``."""
    *most, last = names or ("",)
    return f"{', '.join(most)} and {last}" if most else last


def _grouped(values: Mapping[TopicPartition, T]) -> dict[T, list[TopicPartition]]:
    by_value: dict[T, list[TopicPartition]] = {}
    for tp, value in sorted(values.items()):
        by_value.setdefault(value, []).append(tp)
    return by_value


def _partitions(partitions: Iterable[TopicPartition], many: bool) -> str:
    tps = list(partitions)
    return counted(len(tps), "partition") if many else listed(tps)


def _plural(noun: str, members: Sequence[str]) -> str:
    return noun if len(members) == 1 else f"{noun}s"


def _is(members: Sequence[str]) -> str:
    return "is" if len(members) == 1 else "are"
