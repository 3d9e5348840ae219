"""The timeline of one group of the broker. Pure. Tests: tests/kafka_zk/recorder/timeline/test_broker_timeline.py."""

from kafka_zk.broker.group.events import CoordinatorEvent
from kafka_zk.rebalance.events import RebalanceEvent
from kafka_zk.recorder.timeline.broker_group import BrokerGroupRebalances
from kafka_zk.recorder.timeline.events import GenerationSeen, StateSeen
from kafka_zk.recorder.timeline.member_names import MemberNames
from kafka_zk.recorder.timeline.timeline import Timeline
from kafka_zk.recorder.timeline.trace_file import Traced


class BrokerTimeline(Timeline):
    """Takes the events of brokers, members and an observer. What is about another group, or about none, is passed over;
    members get short names."""

    def __init__(self, group_id: str) -> None:
        super().__init__(BrokerGroupRebalances())
        self._group_id = group_id
        self._names = MemberNames()

    def add(self, traced: Traced) -> None:
        """Take in an event, unless it is about something else."""
        if self._is_about_the_group(traced):
            super().add(traced._replace(event=self._names.in_event(traced.event)))

    def _is_about_the_group(self, traced: Traced) -> bool:
        event = traced.event
        if isinstance(event, CoordinatorEvent):
            return event.group_id == self._group_id
        return isinstance(event, RebalanceEvent | GenerationSeen | StateSeen)
