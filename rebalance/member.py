"""One member of a group as a pure state machine: inputs in, effects out.

Theory of operation: claims (``registry.owners``) provide safety; an assignment is only advice. Members therefore need
no rounds. A member keeps the newest view of its group and derives what it should own (``group_view``); after every
input, ``hand_over`` starts the missing actions. If it leads the group, it also updates the assignment (``leadership``).
Two members' views may differ for a moment: every watch re-reads, so they become equal, and until then a claim finds the
current owner's znode. No timer decides who owns a partition.

    OUTSIDE ──► MEMBER ──► LEAVING ──► LEFT      the end of a session: MEMBER ──► OUTSIDE, LEAVING ──► LEFT

While the connection is in doubt, delivery and commits are suspended but the claims stay. The end of the session ends
all claims immediately. Source: KIP-429 and KIP-345 for the goals, ZookeeperConsumerConnector.scala@0.10.2 for eager.
"""

import enum
from collections.abc import Mapping
from functools import singledispatchmethod

from kafka_zk.rebalance import effects, events, inputs
from kafka_zk.rebalance.config import GroupConfig
from kafka_zk.rebalance.effects import Effect
from kafka_zk.rebalance.group_strategy import choose
from kafka_zk.rebalance.group_view import GroupView, Target
from kafka_zk.rebalance.hand_over import CLAIM_TIMER, HandOver
from kafka_zk.rebalance.inputs import Input
from kafka_zk.rebalance.leadership import Leadership
from kafka_zk.rebalance.outbox import Outbox
from kafka_zk.rebalance.topic_filter import InvalidTopicFilter
from kafka_zk.registry.znodes.consumers import ConsumerRegistration


class Phase(enum.Enum):
    OUTSIDE = "outside"  # no session, or registration in progress
    MEMBER = "member"
    LEAVING = "leaving"
    LEFT = "left"


class GroupMember:
    """Call ``step`` with every input and run the returned effects."""

    def __init__(self, consumer_id: str, registration: ConsumerRegistration, config: GroupConfig) -> None:
        self.consumer_id = consumer_id
        self._registration = registration
        self._config = config
        self._phase = Phase.OUTSIDE
        self._suspended = False
        self._view_changed = False
        self._unregistering = False
        self._out = Outbox(consumer_id)
        self._hand_over = HandOver(self._out, config)
        self._reported_strategy = ""  # the strategy last reported to observers
        self._reported_problem = ""  # the problem last reported to observers
        self._start_over()

    @property
    def owned(self) -> Target:
        """Partition -> thread number, for each partition that is delivered."""
        return self._hand_over.owned

    def step(self, event: Input, now_ms: float) -> list[Effect]:
        """The effects of ``event``, in order. ``now_ms``: on any monotonic clock."""
        self._out.now_ms = now_ms
        self._handle(event)
        if self._view_changed and self._phase in (Phase.MEMBER, Phase.LEAVING):
            self._view_changed = False
            self._look_at_the_view()
        self._hand_over.reconcile()
        self._hand_over.hold_topics()
        if self._phase is Phase.LEAVING and self._hand_over.is_empty and not self._unregistering:
            self._unregistering = True
            self._out.do(effects.Unregister())
        return self._out.take()

    @singledispatchmethod
    def _handle(self, event: Input) -> None:
        raise AssertionError(f"no such input: {event!r}")

    @_handle.register
    def _session_opened(self, _: inputs.SessionOpened) -> None:
        self._resume("a new session")
        if self._phase is Phase.OUTSIDE:
            self._out.do(effects.Register())

    @_handle.register
    def _registered(self, event: inputs.Registered) -> None:
        if self._phase is Phase.OUTSIDE:
            self._phase = Phase.MEMBER
            self._view.members = None  # they were read before this member registered
            self._out.note(events.MemberRegistered, event.session_id, zxid=event.czxid)

    @_handle.register
    def _suspend(self, _: inputs.Suspended) -> None:
        self._suspended = True
        self._leadership.suspended(self._out.now_ms)
        self._out.note(events.DeliverySuspended, cause="the connection broke")
        self._out.do(effects.SuspendDelivery())

    @_handle.register
    def _connected(self, event: inputs.Connected) -> None:
        self._hand_over.lost(event.lost, "no longer this member's after a reconnect")
        self._resume("connected again in the same session")
        self._leadership.resumed(self._out.now_ms)
        self._view_changed = True
        self._hand_over.watch_owners()

    @_handle.register
    def _session_ended(self, _: inputs.SessionEnded) -> None:
        self._out.cause = "the session ended"
        self._hand_over.clear()
        self._start_over()
        if self._phase is Phase.LEAVING:
            self._finish()
        elif self._phase is Phase.MEMBER:
            self._phase = Phase.OUTSIDE

    @_handle.register
    def _timer_fired(self, event: inputs.TimerFired) -> None:
        if event.name == CLAIM_TIMER:
            self._hand_over.check_overdue_claims()
        else:
            self._view_changed = True

    @_handle.register
    def _leave_requested(self, _: inputs.LeaveRequested) -> None:
        if self._phase in (Phase.OUTSIDE, Phase.MEMBER):
            self._out.cause = "this member leaves"
            self._phase = Phase.LEAVING
            self._hand_over.set_target({})

    @_handle.register
    def _unregistered(self, _: inputs.Unregistered) -> None:
        if self._phase is Phase.LEAVING:
            self._finish()

    @_handle.register
    def _members_read(self, event: inputs.MembersRead) -> None:
        if self._phase is Phase.MEMBER and self.consumer_id not in event.members:
            self._out.cause = "this member's registration was removed"
            self._phase = Phase.OUTSIDE
            self._hand_over.set_target({})
            self._out.do(effects.Register())
            return
        before = self._view.members
        if before is not None:
            self._out.cause = _difference(before, event.members)
        choice = choose(event.members)
        self._view.members, self._view.strategy = event.members, choice.strategy
        if choice.strategy.name != self._reported_strategy:
            self._reported_strategy = choice.strategy.name
            self._out.note(events.StrategyChosen, choice.strategy.name, choice.warning, cause=choice.why)
            if self._registration.instance_id is not None and not choice.strategy.by_leader:
                cause = f"group.instance.id has no effect while the group runs {choice.strategy.name} ({choice.why})"
                self._out.note(events.PlaceNotKept, cause=cause)
        self._view_changed = True

    @_handle.register
    def _partitions_read(self, event: inputs.PartitionsRead) -> None:
        if event.wanted != self._view.wanted:
            return  # the response to an earlier request
        before, self._view.partitions = self._view.partitions, event.partitions
        if before is not None:
            changed = [topic for topic, numbers in sorted(event.partitions.items()) if before.get(topic) != numbers]
            self._out.cause = f"partitions of {', '.join(changed) or 'topics'} changed"
        self._view_changed = True

    @_handle.register
    def _topics_seen(self, event: inputs.TopicsSeen) -> None:
        self._hand_over.topics_seen(event.czxids)

    @_handle.register
    def _brokers_read(self, event: inputs.BrokersRead) -> None:
        before, self._view.broker_ids = self._view.broker_ids, event.broker_ids
        if before is not None:
            self._out.cause = f"brokers changed from {sorted(before)} to {sorted(event.broker_ids)}"
        self._view_changed = True

    @_handle.register
    def _assignment_read(self, event: inputs.AssignmentRead) -> None:
        self._view.assignment, self._view.assignment_version = event.assignment, event.version
        if self._view.generation:
            self._out.cause = f"generation {self._view.generation}"
        self._view_changed = True

    @_handle.register
    def _assignment_settled(self, event: inputs.AssignmentSettled) -> None:
        proposal = self._leadership.settled(refused=event.stands is None)
        if event.stands is None:
            self._problem(event.error)
            return
        if event.written:
            written = proposal.assignment
            self._out.note(events.GenerationWritten, written.generation, written.strategy, proposal.moved)
        self._assignment_read(event.stands)

    @_handle.register
    def _owners_read(self, event: inputs.OwnersRead) -> None:
        self._leadership.owners_read(event.owners)
        self._view_changed = True

    @_handle.register
    def _claim_settled(self, event: inputs.ClaimSettled) -> None:
        self._hand_over.claim_settled(event.outcomes)

    @_handle.register
    def _owners_gone(self, event: inputs.OwnersGone) -> None:
        self._hand_over.owners_gone(event.partitions)

    @_handle.register
    def _delivery_stopped(self, event: inputs.DeliveryStopped) -> None:
        self._hand_over.delivery_stopped(event.stop_id, event.offsets)

    @_handle.register
    def _release_settled(self, event: inputs.ReleaseSettled) -> None:
        self._hand_over.release_settled(event.outcomes)

    @_handle.register
    def _ownership_lost(self, event: inputs.OwnershipLost) -> None:
        self._hand_over.lost(event.partitions, event.cause)

    def _look_at_the_view(self) -> None:
        if self._phase is Phase.LEAVING:
            return
        try:
            self._watch_topics()
            for effect in self._leadership.work(self._view, self._out.now_ms, self._out.cause):
                self._out.do(effect)
            target = self._view.target()
        except InvalidTopicFilter as error:
            self._problem(str(error))
            return
        self._reported_problem = ""
        if target is not None and self._view.strategy is not None:
            self._hand_over.set_target(target, self._view.strategy.name, self._view.generation, self._view.inputs())

    def _watch_topics(self) -> None:
        wanted = self._view.topics_to_watch()
        wanted.check()
        if wanted != self._view.wanted:
            self._view.wanted, self._view.partitions = wanted, None
            self._out.do(effects.WatchTopics(wanted))

    def _start_over(self) -> None:
        self._view = GroupView(self.consumer_id, self._registration, self._config.exclude_internal_topics)
        self._leadership = Leadership()
        self._view_changed = False
        self._unregistering = False

    def _resume(self, cause: str) -> None:
        if self._suspended:
            self._suspended = False
            self._out.note(events.DeliveryResumed, cause=cause)
            self._out.do(effects.ResumeDelivery())

    def _finish(self) -> None:
        self._phase = Phase.LEFT
        self._out.note(events.MemberLeft)
        self._out.do(effects.Finish())

    def _problem(self, cause: str) -> None:
        if cause != self._reported_problem:
            self._reported_problem = cause
            self._out.note(events.GroupNotUnderstood, cause=cause)


def _difference(before: Mapping[str, object], after: Mapping[str, object]) -> str:
    came, went = sorted(after.keys() - before.keys()), sorted(before.keys() - after.keys())
    words = [*(f"{name} came" for name in came), *(f"{name} went" for name in went)]
    return ", ".join(words) or "a member was replaced"
