"""A group's state, generation and members, and the requests that it accepts. Pure.

Source: GroupMetadata.scala, GroupCoordinator.scala (the validate methods)@3.9.
"""

from kafka_zk.base.state_machine import IllegalTransition, outcome
from kafka_zk.broker.group.members import Member, Members
from kafka_zk.broker.group.offsets import GroupOffsets
from kafka_zk.broker.group.records import GroupMetadataValue
from kafka_zk.broker.group.requests import LAST_GENERATION, UNKNOWN_MEMBER_ID, JoinGroup, JoinResult, Now
from kafka_zk.broker.group.states import TRANSITIONS, Event, GroupState
from kafka_zk.broker.group.subscription import subscribed_topics
from kafka_zk.protocol.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from kafka_zk.protocol.errors import ErrorCode

_EMPTY, _PREPARING, _COMPLETING, _STABLE, _DEAD = GroupState


class GroupMetadata:
    """The state, generation and members of one group.

    Attributes:
        state: changed by ``load`` and ``enter``; Dead is final.
        state_timestamp_ms: wall-clock time of the last change of state; NO_TIMESTAMP if not stored.
        generation_id: 0 before the first generation, then from 1 to LAST_GENERATION, and again from 1.
        protocol_type: the members' protocol type, such as "consumer"; None before the first member.
        protocol_name: this generation's assignor; None before the first generation or without members.
        subscribed_topics: of this generation's members; None if unknown: before the first generation, for a group that
        is not a consumer group, or with invalid metadata.
    """

    def __init__(self, group_id: str, now: Now) -> None:
        self.group_id = group_id
        self.state = _EMPTY
        self.state_timestamp_ms = now.wall_ms
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.members = Members()
        self.offsets = GroupOffsets()
        self.subscribed_topics: frozenset[str] | None = None

    def load(self, value: GroupMetadataValue) -> None:
        self.state = _STABLE if value.members else _EMPTY
        self.state_timestamp_ms = value.state_timestamp_ms
        self.generation_id = value.generation_id
        self.protocol_type = value.protocol_type or None
        self.protocol_name = value.protocol_name
        self.members.load(value)
        self.subscribed_topics = self._subscribed_topics()

    def value(self, assignments: dict[str, bytes]) -> GroupMetadataValue:
        """The group's stored form."""
        members = self.members.stored(self.protocol_name, assignments)
        return GroupMetadataValue(
            self.protocol_type or "", self.generation_id, self.protocol_name, self.members.leader,
            self.state_timestamp_ms, members,
        )  # fmt: skip

    @property
    def is_consumer_group(self) -> bool:
        """True if the members are consumers, not for example Connect workers."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    # State.

    def enter(self, event: Event, now: Now | None) -> None:
        """Change the state according to the transition table. Raises: IllegalTransition."""
        after = outcome(TRANSITIONS, event, self.state)
        if isinstance(after, ErrorCode):
            raise IllegalTransition(f"{event.value} in {self.state.value}")
        if after is not self.state and now is not None:
            self.state_timestamp_ms = now.wall_ms
        self.state = after

    def begin_generation(self) -> None:
        """Begin the next generation with the current members."""
        self.generation_id = self.generation_id % LAST_GENERATION + 1
        self.protocol_name = self.members.choose_protocol() if len(self.members) else None
        self.subscribed_topics = self._subscribed_topics()

    def _subscribed_topics(self) -> frozenset[str] | None:
        if not self.is_consumer_group:
            return None
        name = self.protocol_name
        return subscribed_topics(member.metadata(name) for member in self.members if name is not None)

    def joined(
        self, member: Member, with_members: bool, *, leader: str | None = None, skip_assignment: bool = False
    ) -> JoinResult:
        """The JoinGroup response for a member of this generation."""
        assert self.protocol_name is not None
        if leader is None:
            leader = self.members.leader or ""
        members = self.members.joined(self.protocol_name) if with_members else ()
        return JoinResult(
            ErrorCode.NONE, member.member_id, self.generation_id, self.protocol_type, self.protocol_name,
            leader, skip_assignment, members,
        )  # fmt: skip

    # Checks of requests.

    def accepts(self, member_id: str, max_size: int) -> bool:
        """True if the group has room for this member within ``max_size``."""
        if self.state is _EMPTY:
            return True
        member = self.members.get(member_id)
        if self.state is _PREPARING:
            is_counted = member is not None and member.joining is not None
            return is_counted or self.members.joining_count < max_size
        return member is not None or len(self.members) < max_size

    def supports(self, request: JoinGroup) -> bool:
        """True if the client has the group's type and an assignor that all members support."""
        if self.state is _EMPTY:
            return bool(request.protocol_type) and bool(request.protocols)
        return request.protocol_type == self.protocol_type and self.members.support(request.protocols)

    def commit_refusal(
        self, member_id: str, group_instance_id: str | None, generation_id: int, *, transactional: bool = False
    ) -> ErrorCode:
        """The error if the client must not commit offsets now, otherwise NONE."""
        names_member = generation_id >= 0 or member_id != UNKNOWN_MEMBER_ID or group_instance_id is not None
        if generation_id < 0 and self.state is _EMPTY:  # the client assigns partitions itself
            names_member = False
        event = Event.COMMIT if names_member else Event.COMMIT_WITHOUT_MEMBER
        if transactional:
            event = Event.TXN_COMMIT
        if names_member:
            return self.refusal(event, member_id, group_instance_id, generation_id)
        return self.refusal_by_state(event)

    def refusal(
        self, event: Event, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        """The error for a request with a member and a generation; NONE if it is accepted."""
        by_state = self.refusal_by_state(event)
        if self.state is _DEAD:
            return by_state
        refusal = self.member_refusal(member_id, group_instance_id)
        if refusal is not ErrorCode.NONE:
            return refusal
        return by_state if generation_id == self.generation_id else ErrorCode.ILLEGAL_GENERATION

    def refusal_by_state(self, event: Event) -> ErrorCode:
        """The error for a request in the current state; NONE if it is accepted."""
        after = TRANSITIONS[event][self.state]
        return after if isinstance(after, ErrorCode) else ErrorCode.NONE

    def member_refusal(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """NONE if the member id exists and has this group instance id (or none is given); otherwise the error."""
        if group_instance_id is not None:
            current = self.members.static.get(group_instance_id)
            if current is not None and current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID
