"""How many partitions each thread may have in a balanced assignment. Pure; independent of the previous assignment.

An assignment is balanced if no thread can pass a partition, directly or through a chain of threads, to a thread that
has at least two fewer. Each thread in a chain passes on one partition for each that it receives. This includes KIP-54's
balance for different subscriptions. Exactly the assignments with the least sum of squared counts are balanced. They are
described by one number per thread, its *full load*: the largest count among the thread and all threads from which a
chain leads to it. All balanced assignments have the same full loads, and an assignment is balanced if and only if

- every thread has its full load or one less, and
- every partition belongs to a reader whose full load is the smallest among the partition's readers.

Threads and audiences are numbers here. An audience is a set of threads, together with the partitions that exactly these
threads may read.
"""

from collections.abc import Sequence
from heapq import heapify, heapreplace

Audience = frozenset[int]
"""The threads that may read these partitions; not empty."""


def full_loads(audiences: Sequence[Audience], sizes: Sequence[int], thread_count: int) -> list[int]:
    return _Levelled(audiences, sizes, thread_count).full_loads()


class _Levelled:
    def __init__(self, audiences: Sequence[Audience], sizes: Sequence[int], thread_count: int) -> None:
        self._audiences = audiences
        self._load = [0] * thread_count
        self._held: list[dict[int, int]] = [{} for _ in range(thread_count)]  # thread -> audience -> count above 0
        for audience in sorted(range(len(audiences)), key=lambda each: len(audiences[each])):
            self._fill(audience, sizes[audience])

    def full_loads(self) -> list[int]:
        """Each search starts from the most loaded unsettled thread. If it finds no target, all threads that it reached
        are settled.

        No later chain enters a settled set: its threads have the origin's load or one less, chains from them stay
        within the set, and no thread outside the set gets more than the origin.
        """
        full = [0] * len(self._load)
        unsettled = set(range(len(self._load)))
        while unsettled:
            origin = max(unsettled, key=self._load.__getitem__)
            came_by, target = self._search(origin, unsettled)
            if target is None:
                for thread in came_by:
                    full[thread] = self._load[origin]
                unsettled -= came_by.keys()
            else:
                self._pass_along(came_by, origin, target)
        return full

    def _fill(self, audience: int, count: int) -> None:
        heap = [(self._load[thread], thread) for thread in self._audiences[audience]]
        heapify(heap)
        for _ in range(count):
            load, thread = heap[0]
            heapreplace(heap, (load + 1, thread))
            self._add(thread, audience, 1)

    def _search(self, origin: int, unsettled: set[int]) -> tuple[dict[int, tuple[int, int]], int | None]:
        """Search breadth first. Return how each thread was reached, and a thread with at least two partitions fewer
        than ``origin``, or None.
        """
        came_by = {origin: (-1, -1)}
        left, seen_audiences = unsettled - {origin}, set[int]()
        queue = [origin]
        for giver in queue:
            for audience in self._held[giver].keys() - seen_audiences:
                seen_audiences.add(audience)
                found = self._audiences[audience] & left
                left -= found
                came_by.update(dict.fromkeys(found, (giver, audience)))
                target = min(found, key=self._load.__getitem__, default=origin)
                if self._load[target] <= self._load[origin] - 2:
                    return came_by, target
                queue += found
        return came_by, None

    def _pass_along(self, came_by: dict[int, tuple[int, int]], origin: int, target: int) -> None:
        chain = []
        thread = target
        while thread != origin:
            giver, audience = came_by[thread]
            chain.append((giver, audience, thread))
            thread = giver
        count = (self._load[origin] - self._load[target]) // 2
        count = min(count, *(self._held[giver][audience] for giver, audience, _ in chain))
        for giver, audience, receiver in chain:
            self._add(receiver, audience, count)
            self._add(giver, audience, -count)

    def _add(self, thread: int, audience: int, count: int) -> None:
        held = self._held[thread]
        held[audience] = held.get(audience, 0) + count
        if not held[audience]:
            del held[audience]
        self._load[thread] += count
