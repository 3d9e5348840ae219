"""Of all balanced assignments, one that moves the fewest partitions: a flow of least cost. Pure.

Only counts matter. A thread that had n partitions of an audience and is to have c of them keeps the smaller of the two,
so what exceeds n are moves: each costs 1. Threads of one full load (``rebalance.balance``) are a problem of their own:
each is to have *full* or *full - 1* partitions, and how many are to have which follows from how many there are.

The search starts from where nothing moves: every thread has what it had, which may be too many, and what no thread had
is free. Then what is too many is passed on, along the cheapest chains first. A *chain* leads from a thread or an
audience that has too many, through audiences and threads, to a thread with room; what it costs is one for each thread
that comes to have more than it had, less one for each that gives such a one away. Being full is passed on as well:
there is one *hub* for it, from which a full thread may become one that has one less.

Cheapest first is kept by *distances*, as in the Hungarian method: no arc leads further than it costs, and a chain uses
only arcs that lead exactly as far. When no chain is left, everything that was not reached moves away by one. So the
result costs least whenever the search ends, and it ends because there are balanced assignments.

Sets of threads are intersected rather than walked through: 2,000 audiences of 100 threads have 200,000 arcs.
Tests: ``tests/rebalance/test_sticky.py``, with all assignments of small groups as the judge.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from kafka_zk.rebalance.balance import Audience, full_loads

Counts = dict[int, int]
Node = tuple[int, int]

_THREAD, _AUDIENCE = 0, 1
_HUB: Node = (2, 0)
_NO_LIMIT = 1 << 62
_NONE: frozenset[int] = frozenset()


def counts_with_fewest_moves(
    audiences: Sequence[Audience], sizes: Sequence[int], had: Sequence[Counts], thread_count: int
) -> list[Counts]:
    """Per audience, how many of its partitions each thread is to have (those with none are left out).

    Args:
        sizes: per audience, how many partitions there are.
        had: per audience, how many of them its threads had before.
    """
    full = full_loads(audiences, sizes, thread_count)
    groups: dict[int, _Group] = {}
    for thread, load in enumerate(full):
        groups.setdefault(load, _Group(load)).threads.add(thread)
    for number, audience in enumerate(audiences):
        if sizes[number]:
            groups[min(full[thread] for thread in audience)].audiences.append(number)
    counts: list[Counts] = [{} for _ in audiences]
    for load in sorted(groups):
        group = groups[load]
        if group.audiences:
            _Flow(group, audiences, sizes, had).settle(counts)
    return counts


@dataclass(slots=True)
class _Group:
    """Threads of one full load, and the audiences whose partitions they share."""

    full: int
    threads: set[int] = field(default_factory=set)
    audiences: list[int] = field(default_factory=list)


class _Flow:
    """One group while it is worked out."""

    def __init__(
        self, group: _Group, audiences: Sequence[Audience], sizes: Sequence[int], had: Sequence[Counts]
    ) -> None:
        self._full = group.full
        self._readers = {number: audiences[number] & group.threads for number in group.audiences}
        self._had = {
            number: {thread: count for thread, count in had[number].items() if thread in group.threads}
            for number in group.audiences
        }
        self._lacks: dict[int, set[int]] = {number: set() for number in group.audiences}  # those that lost some
        self._count: dict[int, Counts] = {thread: {} for thread in sorted(group.threads)}  # thread -> audience -> count
        for number, counts in self._had.items():
            for thread, count in counts.items():
                self._count[thread][number] = count
        loads = {thread: sum(counts.values()) for thread, counts in self._count.items()}
        # What a thread has in its place: ``_basic`` up to full - 1, and one more if it is full; the rest is too many.
        self._basic = {thread: min(load, group.full - 1) for thread, load in loads.items()}
        self._is_full: set[int] = set()
        self._full_left = sum(sizes[number] for number in group.audiences) - len(loads) * (group.full - 1)
        for thread, load in loads.items():
            if load >= group.full and self._full_left:
                self._take_place(thread)
        self._excess: dict[Node, int] = {
            (_AUDIENCE, number): sizes[number] - sum(counts.values()) for number, counts in self._had.items()
        }
        for thread, load in loads.items():
            self._excess[_THREAD, thread] = load - self._basic[thread] - (thread in self._is_full)
        self._distance: dict[Node, int] = dict.fromkeys((*self._excess, _HUB), 0)

    def settle(self, counts: list[Counts]) -> None:
        """Work it out and write it into ``counts``."""
        while sources := [node for node, excess in self._excess.items() if excess]:
            search = _Search(self._count, self._distance)
            moved = False
            for source in sources:
                target = search.run(source, self._arcs, self._has_room)
                if target is not None:
                    moved = True
                    self._pass_along(search, source, target)
            if not moved:
                search.move_away_what_was_not_reached()
        for thread, held in self._count.items():
            for number, count in held.items():
                if count:
                    counts[number][thread] = count

    def _has_room(self, node: Node) -> bool:
        kind, thread = node
        return kind == _THREAD and (
            self._basic[thread] < self._full - 1 or (self._full_left > 0 and thread not in self._is_full)
        )

    def _arcs(self, node: Node, search: "_Search") -> Iterator[tuple[Node, int]]:
        """Where chains go on from here, and with how many."""
        kind, number = node
        distance = self._distance[node]
        if node == _HUB:
            yield from (((_THREAD, thread), 1) for thread in search.unseen(distance, self._is_full))
        elif kind == _AUDIENCE:
            counts, had = self._count, self._had[number]
            for thread in search.unseen(distance, self._lacks[number]):
                yield (_THREAD, thread), had[thread] - counts[thread][number]
            yield from (
                ((_THREAD, thread), _NO_LIMIT)
                for thread in search.unseen(distance + 1, self._readers[number])
                if thread not in self._lacks[number]
            )
        else:
            for audience, count in self._count[number].items():
                over = count - self._had[audience].get(number, 0)
                if count and self._distance[_AUDIENCE, audience] == (distance - 1 if over > 0 else distance):
                    yield (_AUDIENCE, audience), over if over > 0 else count
            if number not in self._is_full and self._distance[_HUB] == distance:
                yield _HUB, 1

    def _pass_along(self, search: "_Search", source: Node, target: Node) -> None:
        path = search.path(target)
        thread = target[1]
        room = self._full - 1 - self._basic[thread]
        amount = min(self._excess[source], room or 1, *(limit for _, _, limit in path))
        self._excess[source] -= amount
        for giver, receiver, _ in path:
            if giver == _HUB:
                self._is_full.discard(receiver[1])
            elif receiver == _HUB:
                self._is_full.add(giver[1])
            elif giver[0] == _AUDIENCE:
                self._add(receiver[1], giver[1], amount)
            else:
                self._add(giver[1], receiver[1], -amount)
        if room:
            self._basic[thread] += amount
        else:
            self._take_place(thread)

    def _take_place(self, thread: int) -> None:
        self._is_full.add(thread)
        self._full_left -= 1

    def _add(self, thread: int, audience: int, amount: int) -> None:
        counts = self._count[thread]
        counts[audience] = counts.get(audience, 0) + amount
        lacks = self._lacks[audience]
        (lacks.add if counts[audience] < self._had[audience].get(thread, 0) else lacks.discard)(thread)


class _Search:
    """One search from all threads that have too many; a node is visited once."""

    def __init__(self, threads: Iterable[int], distance: dict[Node, int]) -> None:
        self._distance = distance
        self._came_by: dict[Node, tuple[Node, int]] = {}
        self._unseen: dict[int, set[int]] = {}  # distance -> threads
        for thread in threads:
            self._unseen.setdefault(distance[_THREAD, thread], set()).add(thread)

    def unseen(self, distance: int, among: AbstractSet[int]) -> list[int]:
        """The threads at that distance that were not visited, sorted."""
        return sorted(self._unseen.get(distance, _NONE) & among)

    def run(
        self,
        source: Node,
        arcs: Callable[[Node, "_Search"], Iterable[tuple[Node, int]]],
        has_room: Callable[[Node], bool],
    ) -> Node | None:
        """Breadth first: the first thread with room, None if there is none that was not visited before."""
        if source in self._came_by:
            return None
        self._see(source, source, _NO_LIMIT)
        queue = [source]
        for node in queue:
            for following, limit in arcs(node, self):
                if following not in self._came_by:
                    self._see(following, node, limit)
                    if has_room(following):
                        return following
                    queue.append(following)
        return None

    def path(self, target: Node) -> list[tuple[Node, Node, int]]:
        """From, to and how many at most, last step first."""
        steps = []
        giver, limit = self._came_by[target]
        while giver != target:
            steps.append((giver, target, limit))
            target = giver
            giver, limit = self._came_by[target]
        return steps

    def move_away_what_was_not_reached(self) -> None:
        for node in self._distance.keys() - self._came_by.keys():
            self._distance[node] += 1

    def _see(self, node: Node, giver: Node, limit: int) -> None:
        self._came_by[node] = giver, limit
        kind, thread = node
        if kind == _THREAD:
            self._unseen[self._distance[node]].remove(thread)
