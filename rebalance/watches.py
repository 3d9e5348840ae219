"""A member's watches: group members, the leader's assignment, brokers, and the topics it needs.

All initial reads are pipelined. Each change becomes an input of ``GroupMember``.
"""

from collections.abc import Callable, Iterable
from functools import partial

from kafka_zk.base.events import EventSource
from kafka_zk.base.integers import INT32
from kafka_zk.rebalance.inputs import AssignmentRead, BrokersRead, Input, MembersRead, PartitionsRead, TopicsSeen
from kafka_zk.rebalance.topics_wanted import NOTHING_WANTED, TopicsWanted
from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.client.watches import ChildrenWatcher, Watcher
from kafka_zk.registry.consumers import ConsumerRegistry
from kafka_zk.registry.group_assignments import GroupAssignmentRegistry
from kafka_zk.registry.topics import UNKNOWN_CZXID, TopicRegistry
from kafka_zk.registry.znodes.brokers import BROKER_IDS
from kafka_zk.registry.znodes.json_codec import number_of
from kafka_zk.registry.znodes.topics import TopicAssignment


class GroupWatches:
    """Created when the member is registered, closed when the session ends."""

    def __init__(
        self, client: RegistryClient, group: str, on_input: Callable[[Input], None], source: EventSource
    ) -> None:
        self._topics = WatchedTopics(TopicRegistry(client, source), on_input)
        self._watchers: list[Watcher] = [
            ConsumerRegistry(client, group, None, source).watch(lambda members: on_input(MembersRead(members))),
            GroupAssignmentRegistry(client, group, source).watch(
                lambda assignment, version: on_input(AssignmentRead(assignment, version))
            ),
            ChildrenWatcher(client, BROKER_IDS, lambda names: on_input(BrokersRead(_broker_ids(names))), source),
        ]

    def watch_topics(self, wanted: TopicsWanted) -> None:
        self._topics.watch_topics(wanted)

    def hold_topics(self, topics: frozenset[str]) -> None:
        self._topics.hold_topics(topics)

    def close(self) -> None:
        self._topics.hold_topics(frozenset())
        self._topics.watch_topics(NOTHING_WANTED)
        for watcher in self._watchers:
            watcher.close()


class WatchedTopics:
    """Watches the partitions of wanted topics and the czxids of held topics, with one watch each. If the wanted topics
    include a filter, the names of all topics are also watched."""

    def __init__(self, registry: TopicRegistry, on_input: Callable[[Input], None]) -> None:
        self._registry = registry
        self._on_input = on_input
        self._wanted = NOTHING_WANTED
        self._held: frozenset[str] = frozenset()
        self._names: list[str] | None = None  # names of all topics; None: not read yet
        self._names_watcher: Watcher | None = None
        self._watchers: dict[str, Watcher] = {}
        self._partitions: dict[str, tuple[int, ...]] = {}  # partitions of the topics read so far
        self._czxids: dict[str, int] = {}  # czxids of the same topics

    def watch_topics(self, wanted: TopicsWanted) -> None:
        self._wanted = wanted
        if wanted.filters and self._names_watcher is None:
            self._names_watcher = self._registry.watch_names(self._names_read)
        elif not wanted.filters and self._names_watcher is not None:
            self._names_watcher.close()
            self._names_watcher, self._names = None, None
        self._watch()

    def hold_topics(self, topics: frozenset[str]) -> None:
        known = {topic: self._czxids[topic] for topic in topics - self._held if topic in self._czxids}
        self._held = topics
        self._watch()
        if known:
            self._on_input(TopicsSeen(known))

    def _names_read(self, names: list[str]) -> None:
        if self._names_watcher is not None or self._wanted.filters:
            self._names = names
            self._watch()

    def _watch(self) -> None:
        topics = self._held | self._wanted.of(self._names or ())
        for topic in sorted(self._watchers.keys() - topics):
            self._watchers.pop(topic).close()
            self._partitions.pop(topic, None)
            self._czxids.pop(topic, None)
        for topic in sorted(topics - self._watchers.keys()):
            self._watchers[topic] = self._registry.watch_topic(topic, partial(self._topic_read, topic))
        self._report()

    def _topic_read(self, topic: str, assignment: TopicAssignment | None, czxid: int) -> None:
        if assignment is not None:
            self._partitions[topic] = tuple(sorted(assignment.partitions))
        elif czxid == 0:
            self._partitions[topic] = ()
        else:  # an unreadable topic must not hold back the others
            self._partitions.setdefault(topic, ())
        if czxid != UNKNOWN_CZXID:
            self._czxids[topic] = czxid
            if topic in self._held:
                self._on_input(TopicsSeen({topic: czxid}))
        self._report()

    def _report(self) -> None:
        """Report the partitions when all wanted topics are read."""
        if self._wanted == NOTHING_WANTED or (self._wanted.filters and self._names is None):
            return
        wanted = self._wanted.of(self._names or ())
        if wanted <= self._partitions.keys():
            self._on_input(PartitionsRead(self._wanted, {topic: self._partitions[topic] for topic in sorted(wanted)}))


def _broker_ids(names: Iterable[str]) -> frozenset[int]:
    numbers = (number_of(name, INT32) for name in names)
    return frozenset(number for number in numbers if number is not None)
