"""The timeline of one broker-coordinated group. Pure."""

from kafka_zk.broker.group.events import CoordinatorEvent
from kafka_zk.rebalance.events import RebalanceEvent
from kafka_zk.recorder.timeline.broker_group import BrokerGroupRebalances
from kafka_zk.recorder.timeline.events import GenerationSeen, StateSeen
from kafka_zk.recorder.timeline.member_names import MemberNames
from kafka_zk.recorder.timeline.timeline import Timeline
from kafka_zk.recorder.timeline.trace_file import Traced


class BrokerTimeline(Timeline):
    """Ignores events of other groups or of no group, and shortens the members' names."""

    def __init__(self, group_id: str) -> None:
        super().__init__(BrokerGroupRebalances())
        self._group_id = group_id
        self._names = MemberNames()

    def add(self, traced: Traced) -> None:
        if self._is_about_the_group(traced):
            super().add(traced._replace(event=self._names.in_event(traced.event)))

    def _is_about_the_group(self, traced: Traced) -> bool:
        event = traced.event
        if isinstance(event, CoordinatorEvent):
            return event.group_id == self._group_id
        return isinstance(event, RebalanceEvent | GenerationSeen | StateSeen)
