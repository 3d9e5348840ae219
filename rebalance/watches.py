"""What a member watches of its group: members, the leader's assignment, brokers, and the topics it has to know.

All reads of a start are sent together. Each change is told as an input of ``GroupMember``. Tests:
``tests/rebalance/test_driver.py``.
"""

from collections.abc import Callable, Iterable
from functools import partial

from rebalance.events import Observe
from rebalance.inputs import AssignmentRead, BrokersRead, Input, MembersRead, PartitionsRead
from rebalance.topics_wanted import NOTHING_WANTED, TopicsWanted
from registry.client import RegistryClient
from registry.consumers import ConsumerRegistry
from registry.group_assignments import GroupAssignmentRegistry
from registry.topics import TopicRegistry
from registry.watches import ChildrenWatcher, Watcher
from registry.znodes.brokers import BROKER_IDS
from registry.znodes.topics import TopicAssignment


class GroupWatches:
    """Of one session: made when the member is registered, closed when the session ends."""

    def __init__(
        self, client: RegistryClient, group: str, tell: Callable[[Input], None], observe: Observe, actor: str
    ) -> None:
        self._topics = WatchedTopics(TopicRegistry(client, observe, actor), tell)
        self._watchers: list[Watcher] = [
            ConsumerRegistry(client, group, None, observe, actor).watch(lambda members: tell(MembersRead(members))),
            GroupAssignmentRegistry(client, group, observe, actor).watch(
                lambda assignment, version: tell(AssignmentRead(assignment, version))
            ),
            ChildrenWatcher(
                client, BROKER_IDS, lambda names: tell(BrokersRead(_broker_ids(names))), observe=observe, actor=actor
            ),
        ]

    def want(self, wanted: TopicsWanted) -> None:
        """Watch these topics and no others."""
        self._topics.want(wanted)

    def close(self) -> None:
        """Tell nothing from now on."""
        self._topics.want(NOTHING_WANTED)
        for watcher in self._watchers:
            watcher.close()


class WatchedTopics:
    """The partitions of the topics wanted; with a filter among them, the names of all topics are watched too."""

    def __init__(self, registry: TopicRegistry, tell: Callable[[Input], None]) -> None:
        self._registry = registry
        self._tell = tell
        self._wanted = NOTHING_WANTED
        self._names: list[str] | None = None  # of all topics; None: not read
        self._names_watcher: Watcher | None = None
        self._watchers: dict[str, Watcher] = {}
        self._partitions: dict[str, tuple[int, ...]] = {}  # of the topics read so far

    def want(self, wanted: TopicsWanted) -> None:
        self._wanted = wanted
        if wanted.filters and self._names_watcher is None:
            self._names_watcher = self._registry.watch_names(self._names_read)
        elif not wanted.filters and self._names_watcher is not None:
            self._names_watcher.close()
            self._names_watcher, self._names = None, None
        self._watch()

    def _names_read(self, names: list[str]) -> None:
        if self._names_watcher is not None or self._wanted.filters:
            self._names = names
            self._watch()

    def _watch(self) -> None:
        topics = self._wanted.of(self._names or ())
        for topic in sorted(self._watchers.keys() - topics):
            self._watchers.pop(topic).close()
            self._partitions.pop(topic, None)
        for topic in sorted(topics - self._watchers.keys()):
            self._watchers[topic] = self._registry.watch_assignment(topic, partial(self._topic_read, topic))
        self._report()

    def _topic_read(self, topic: str, assignment: TopicAssignment | None) -> None:
        self._partitions[topic] = () if assignment is None else tuple(sorted(assignment.partitions))
        self._report()

    def _report(self) -> None:
        """Once everything wanted is read."""
        names_known = self._names is not None or not self._wanted.filters
        if self._wanted != NOTHING_WANTED and names_known and self._partitions.keys() == self._watchers.keys():
            self._tell(PartitionsRead(self._wanted, dict(sorted(self._partitions.items()))))


def _broker_ids(names: Iterable[str]) -> frozenset[int]:
    return frozenset(int(name) for name in names if name.isascii() and name.isdigit())
