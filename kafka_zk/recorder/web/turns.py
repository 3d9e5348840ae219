"""Divides many partitions into turns of polls, and keeps the last answer about each partition. Pure.

A turn has at most MOST_PARTITIONS partitions, so that a round stays short however large the cluster is. The age of an
answer is bounded by the number of turns.
"""

from collections.abc import Mapping

from kafka_zk.base.types import TopicPartition

MOST_PARTITIONS = 1_000
"""Partitions in a turn."""
SAMPLED = "sampled"
"""The series of the number of finished rounds; the time of its last sample is when brokers were last asked."""
TURNS = "turns"
"""The series of the number of turns that all partitions need."""


class Turns:
    """``count``: the number of turns that all partitions need."""

    def __init__(self) -> None:
        self.count = 1
        self._round = 0
        self._ends: dict[TopicPartition, int | None] = {}
        self._topics: dict[str, set[TopicPartition]] = {}
        self._of_group: set[str] = set()  # the known series of groups

    def next(self, leaders: Mapping[TopicPartition, str]) -> dict[TopicPartition, str]:
        """The partitions to ask about now, with their leaders: those that were asked about longest ago."""
        self.count = max(1, -(-len(leaders) // MOST_PARTITIONS))
        turn = self._round % self.count
        self._round += 1
        chosen = sorted(leaders)[turn * MOST_PARTITIONS : (turn + 1) * MOST_PARTITIONS]
        return {tp: leaders[tp] for tp in chosen}

    def take(
        self,
        leaders: Mapping[TopicPartition, str],
        ends: Mapping[TopicPartition, int | None],
        committed: Mapping[tuple[str, TopicPartition], int],
    ) -> dict[str, int | None]:
        """The values of this moment by series; None ends a series.

        Args:
            leaders: all partitions that exist.
            ends: the answers to this turn; None: the leader did not respond.
            committed: what is known now. The series of the other groups and partitions end: their group was deleted,
                or its coordinator did not respond.
        """
        gone = self._ends.keys() - leaders.keys()
        found: dict[str, int | None] = {f"end {tp}": None for tp in gone}
        for tp in gone:
            del self._ends[tp]
        for tp, end in ends.items():
            self._ends[tp] = found[f"end {tp}"] = end
        self._topics = _by_topic(leaders)
        for topic in {tp.topic for tp in (*ends, *gone)}:
            found[f"ends {topic}"] = self._sum(topic)
        of_groups = self._of_groups(committed)
        gone_of_groups = dict.fromkeys(self._of_group - of_groups.keys())
        self._of_group = set(of_groups)
        return {**found, **gone_of_groups, **of_groups, TURNS: self.count, SAMPLED: self._round}

    def _sum(self, topic: str) -> int | None:
        """The sum; None if any part is unknown, or no partition is left."""
        values = [self._ends.get(tp) for tp in self._topics.get(topic, ())]
        known = [value for value in values if value is not None]
        return sum(known) if known and len(known) == len(values) else None

    def _of_groups(self, committed: Mapping[tuple[str, TopicPartition], int]) -> dict[str, int | None]:
        found: dict[str, int | None] = {}
        for (group, tp), offset in committed.items():
            if tp in self._ends:
                found[f"committed {group}: {tp}"] = offset
                end, name = self._ends[tp], f"lag {group}: {tp.topic}"
                before = found.get(name, 0)
                found[name] = None if end is None or before is None else before + max(0, end - offset)
        return found


def _by_topic(leaders: Mapping[TopicPartition, str]) -> dict[str, set[TopicPartition]]:
    found: dict[str, set[TopicPartition]] = {}
    for tp in leaders:
        found.setdefault(tp.topic, set()).add(tp)
    return found
