"""Reports changes of a cluster's znodes as events: brokers, controller, leaders and ISRs.

Only a broker's trace contains its reasons and its requests. As with every watch, several changes between two reads are
reported as one.
"""

from functools import partial

from kafka_zk.base.events import EventSource, Observe
from kafka_zk.base.types import TopicPartition
from kafka_zk.recorder.timeline.cluster_events import BrokerGone, BrokerSeen, ControllerSeen, LeadershipSeen
from kafka_zk.recorder.timeline.events import FIRST_LOOK, OBSERVER
from kafka_zk.registry.brokers import BrokerRegistry, LiveBrokers
from kafka_zk.registry.client.client import RegistryClient, ZnodeStat
from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.registry.client.watches import DataWatcher, Watcher
from kafka_zk.registry.controller import ControllerRegistry
from kafka_zk.registry.topics import TopicRegistry
from kafka_zk.registry.znodes import topics as znodes
from kafka_zk.registry.znodes.topics import TopicAssignment

MAX_PARTITIONS = 500
"""Each watched state costs a watch at the server, and a read at every change."""


class ClusterObserver:
    """Reports from its creation until ``close``, on the thread of the client's callbacks."""

    def __init__(self, client: RegistryClient, observe: Observe) -> None:
        self._client = client
        self._source = EventSource(OBSERVER, observe)
        self._registry = TopicRegistry(client)
        self._brokers: dict[int, int] | None = None  # id -> broker epoch; None: not read yet
        self._topics: dict[str, Watcher] = {}
        self._states: dict[TopicPartition, Watcher] = {}
        self.unwatched: set[TopicPartition] = set()
        """Partitions beyond MAX_PARTITIONS."""
        self._watchers: list[Watcher] = [
            BrokerRegistry(client).watch(self._brokers_read),
            ControllerRegistry(client).watch(self._controller_read),
            self._registry.watch_names(self._topics_read),
        ]

    def close(self) -> None:
        for watcher in (*self._watchers, *self._topics.values(), *self._states.values()):
            watcher.close()

    def _brokers_read(self, live: LiveBrokers) -> None:
        cause = FIRST_LOOK if self._brokers is None else "ids changed"
        known = self._brokers or {}
        now = {broker_id: epoch for broker_id, (_, epoch) in live.items()}
        for broker_id in sorted(known):
            if now.get(broker_id) != known[broker_id]:
                self._source.emit(BrokerGone, broker_id, cause=cause)
        for broker_id, epoch in sorted(now.items()):
            if known.get(broker_id) != epoch:
                self._source.emit(BrokerSeen, broker_id, cause=cause, zxid=epoch)
        self._brokers = now

    def _controller_read(self, controller_id: int | None) -> None:
        self._source.emit(ControllerSeen, -1 if controller_id is None else controller_id, cause="controller changed")

    def _topics_read(self, names: list[str]) -> None:
        for name in self._topics.keys() - set(names):
            self._topics.pop(name).close()
            self._assignment_read(name, None)
        for name in names:
            if name not in self._topics:
                self._topics[name] = self._registry.watch_assignment(name, partial(self._assignment_read, name))

    def _assignment_read(self, topic: str, assignment: TopicAssignment | None) -> None:
        tps = {TopicPartition(topic, number) for number in assignment.partitions} if assignment else set()
        self.unwatched = {tp for tp in self.unwatched if tp.topic != topic}
        for tp in [tp for tp in self._states if tp.topic == topic and tp not in tps]:
            self._states.pop(tp).close()
        for tp in sorted(tps - self._states.keys()):
            if len(self._states) < MAX_PARTITIONS:
                self._states[tp] = DataWatcher(self._client, znodes.state_path(*tp), partial(self._state_read, tp))
            else:
                self.unwatched.add(tp)

    def _state_read(self, tp: TopicPartition, data: bytes | None, stat: ZnodeStat | None) -> None:
        if stat is None:
            return  # the znode is not created yet, or it is deleted
        try:
            state = znodes.decode_state(*tp, data, stat.version)
        except InvalidZnode:
            return
        seen = (tp, state.leader, state.leader_epoch, tuple(state.isr), state.controller_epoch)
        self._source.emit(LeadershipSeen, *seen, cause="state changed", zxid=stat.mzxid)
