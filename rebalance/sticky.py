"""``sticky``: as balanced as subscriptions allow, and of what was, keep what balance allows (the goals of KIP-54).

Three steps, each in an order that only the snapshot decides:

1. Keep: a partition stays with the thread that had it, if that is still there and still subscribed.
2. Fill: every other partition goes to its least loaded subscriber; those with the fewest subscribers choose first.
3. Level: while a thread can pass a partition to one that has at least two fewer, it does, starting from the most
   loaded. Where it holds nothing that the other reads, a chain does it: a third thread takes one of its partitions and
   passes on one of its own. What is passed on is what moves anyway, if there is such a partition.

Balanced means that no such chain is left; among threads with equal subscriptions, counts then differ by one at most.
Every chain lowers the sum of the squared counts, so step 3 ends. Threads that found no chain need not be asked again:
the search from a thread visits all that its partitions can reach, no later chain enters that set (it would have been
visited from there), and no thread outside rises above the one that searched.

Tests: ``tests/rebalance/test_sticky.py``, ``test_strategies.py``.
"""

from heapq import heapify, heapreplace
from typing import NamedTuple

from rebalance.assignment import Assignment, GroupSnapshot, ThreadId
from storage.types import TopicPartition


class StickyAssignor:
    """Starts from ``snapshot.previous``; the same for ``eager`` and ``cooperative`` groups."""

    name = "sticky"

    def assign(self, snapshot: GroupSnapshot) -> Assignment:
        distribution = _Distribution(snapshot)
        distribution.fill(distribution.keep())
        distribution.level()
        return distribution.owner_of


class _Holding(NamedTuple):
    """A thread's partitions for one audience: those that it had before, and the others."""

    kept: list[TopicPartition]
    new: list[TopicPartition]


class _Step(NamedTuple):
    """How the search came to a thread: from which one, by a partition for which audience."""

    giver: ThreadId
    audience: int


class _Distribution:
    """Who holds what while it is worked out. Everything is visited in sorted order.

    An *audience* is the tuple of threads that may read a topic; topics with the same one are alike here.
    """

    def __init__(self, snapshot: GroupSnapshot) -> None:
        number_of: dict[tuple[ThreadId, ...], int] = {}
        topics = sorted(snapshot.threads)
        self._audience_of = {topic: number_of.setdefault(snapshot.threads[topic], len(number_of)) for topic in topics}
        self._audiences = list(number_of)
        self._partitions = [TopicPartition(topic, number) for topic in topics for number in snapshot.partitions[topic]]
        self._previous = snapshot.previous
        self._load = {thread: 0 for audience in self._audiences for thread in audience}
        self._held: dict[ThreadId, dict[int, _Holding]] = {thread: {} for thread in self._load}
        self.owner_of: dict[TopicPartition, ThreadId] = {}

    def keep(self) -> list[TopicPartition]:
        """Step 1. Returns the partitions that nobody keeps."""
        readers = [frozenset(audience) for audience in self._audiences]
        left = []
        for partition in self._partitions:
            thread = self._previous.get(partition)
            if thread is not None and thread in readers[self._audience_of[partition.topic]]:
                self._give(partition, thread)
            else:
                left.append(partition)
        return left

    def fill(self, left: list[TopicPartition]) -> None:
        """Step 2. Loads only grow here, so an entry of a heap is either right or too small."""
        heaps = [[(self._load[thread], thread) for thread in audience] for audience in self._audiences]
        for heap in heaps:
            heapify(heap)
        for partition in sorted(left, key=self._fewest_readers_first):
            heap = heaps[self._audience_of[partition.topic]]
            while heap[0][0] != self._load[heap[0][1]]:
                heapreplace(heap, (self._load[heap[0][1]], heap[0][1]))
            self._give(partition, heap[0][1])

    def level(self) -> None:
        """Step 3."""
        settled: set[ThreadId] = set()
        while unsettled := self._load.keys() - settled:
            origin = min(unsettled, key=self._most_loaded_first)
            for step, receiver in self._chain_from(origin, settled):
                self._give(self._take(step), receiver)

    def _chain_from(self, origin: ThreadId, settled: set[ThreadId]) -> list[tuple[_Step, ThreadId]]:
        """The shortest chain to a thread with at least two partitions fewer, last step first.

        Empty if there is none; then everything that could be reached is ``settled``.
        """
        came_by: dict[ThreadId, _Step] = {}
        seen_audiences: set[int] = set()
        reached, frontier = settled | {origin}, [origin]
        while frontier:
            found: list[ThreadId] = []
            for giver in frontier:
                for audience in sorted(self._held[giver].keys() - seen_audiences):
                    seen_audiences.add(audience)
                    new = [thread for thread in self._audiences[audience] if thread not in reached]
                    came_by.update(dict.fromkeys(new, _Step(giver, audience)))
                    reached.update(new)
                    found += new
            target = min(found, key=self._least_loaded_first, default=origin)
            if self._load[target] <= self._load[origin] - 2:
                return _steps_back(came_by, target)
            frontier = found
        settled |= reached
        return []

    def _give(self, partition: TopicPartition, thread: ThreadId) -> None:
        holding = self._held[thread].setdefault(self._audience_of[partition.topic], _Holding([], []))
        (holding.kept if self._previous.get(partition) == thread else holding.new).append(partition)
        self._load[thread] += 1
        self.owner_of[partition] = thread

    def _take(self, step: _Step) -> TopicPartition:
        holdings = self._held[step.giver]
        holding = holdings[step.audience]
        partition = (holding.new or holding.kept).pop()
        if not holding.new and not holding.kept:
            del holdings[step.audience]
        self._load[step.giver] -= 1
        return partition

    def _fewest_readers_first(self, partition: TopicPartition) -> tuple[int, TopicPartition]:
        return len(self._audiences[self._audience_of[partition.topic]]), partition

    def _least_loaded_first(self, thread: ThreadId) -> tuple[int, ThreadId]:
        return self._load[thread], thread

    def _most_loaded_first(self, thread: ThreadId) -> tuple[int, ThreadId]:
        return -self._load[thread], thread


def _steps_back(came_by: dict[ThreadId, _Step], target: ThreadId) -> list[tuple[_Step, ThreadId]]:
    """The steps that lead to ``target``, last one first: nothing leads to where the search began."""
    chain = []
    while target in came_by:
        chain.append((came_by[target], target))
        target = came_by[target].giver
    return chain
