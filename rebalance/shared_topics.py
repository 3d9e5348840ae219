"""Topics with the same readers, whose partitions sticky strategies distribute together. Pure."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.assignment import GroupSnapshot, ThreadId


@dataclass(slots=True)
class SharedTopics:
    """The partitions, sorted, of all topics that exactly these threads read. Threads are numbers.

    ``had``: the partitions that each thread had before.
    """

    readers: tuple[int, ...]
    partitions: list[TopicPartition] = field(default_factory=list)
    had: dict[int, list[TopicPartition]] = field(default_factory=dict)

    def distribute(self, wanted: Mapping[int, int]) -> dict[TopicPartition, int]:
        """Each thread keeps its first previous partitions, up to its count; threads that get more take turns.

        ``wanted``: the count of each thread. They sum to the number of partitions.
        """
        owner_of = {
            partition: thread
            for thread, partitions in self.had.items()
            for partition in partitions[: wanted.get(thread, 0)]
        }
        left = {thread: count - len(self.had.get(thread, ())) for thread, count in sorted(wanted.items())}
        turns = deque((thread, count) for thread, count in left.items() if count > 0)
        for partition in self.partitions:
            if partition not in owner_of:
                thread, count = turns.popleft()
                owner_of[partition] = thread
                if count > 1:
                    turns.append((thread, count - 1))
        return owner_of


def shared_topics(snapshot: GroupSnapshot, number_of: Mapping[ThreadId, int]) -> list[SharedTopics]:
    found: dict[tuple[ThreadId, ...], SharedTopics] = {}
    for topic in sorted(snapshot.threads):
        threads = snapshot.threads[topic]
        shared = found.get(threads)
        if shared is None:
            shared = found[threads] = SharedTopics(tuple(number_of[thread] for thread in threads))
        readers = frozenset(shared.readers)
        for number in snapshot.partitions[topic]:
            partition = TopicPartition(topic, number)
            shared.partitions.append(partition)
            thread = number_of.get(snapshot.previous.get(partition, ""))
            if thread is not None and thread in readers:
                shared.had.setdefault(thread, []).append(partition)
    return list(found.values())
