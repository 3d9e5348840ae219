"""Short names for the members of a broker-coordinated group. Pure.

A member id consists of the client id, or a static member's instance id, and a random UUID. The short name omits the
UUID, or includes part of it if another current member has the same name.
"""

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from kafka_zk.base.events import Event
from kafka_zk.broker.group.events import CoordinatorEvent, MemberDeparted, StaticMemberReturned
from kafka_zk.recorder.timeline.events import GenerationSeen

_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_MEMBER_ID = re.compile(rf"(?P<name>[^\s:]+)-(?P<uuid>{_UUID})")
_UUID_CHARACTERS = 4
_NAMING = ("member", "leader", "old_member")
"""Fields of events that contain a member id."""


class MemberNames:
    def __init__(self) -> None:
        self._names: dict[str, str] = {}  # by member id
        self._present: dict[str, str] = {}  # name -> member id, for current members

    def in_event(self, event: Event) -> Event:
        """Replace member ids by short names."""
        if isinstance(event, GenerationSeen):
            return self._in_generation(event)
        if not isinstance(event, CoordinatorEvent):
            return replace(event, actor=self._names.get(event.actor, event.actor))
        if isinstance(event, StaticMemberReturned):
            self._rename(event.old_member, event.member)
        values = {each.name: getattr(event, each.name) for each in fields(event)}
        named = {field: self._renamed(field, value) for field, value in values.items()}
        if isinstance(event, MemberDeparted):
            self._present.pop(self.name(event.member), None)
        return replace(event, **named)

    def name(self, member_id: str) -> str:
        """The member's short name, assigned at the first call."""
        if member_id not in self._names:
            parts = _MEMBER_ID.fullmatch(member_id)
            name = parts["name"] if parts else member_id
            if name in self._present and parts:
                name = f"{name}-{parts['uuid'][:_UUID_CHARACTERS]}"
            self._names[member_id] = name
            self._present[name] = member_id
        return self._names[member_id]

    def _renamed(self, field: str, value: Any) -> Any:
        if field in _NAMING:
            return self.name(value) if value else value
        if field == "members":
            return tuple(map(self.name, value))
        if isinstance(value, Mapping):
            return {self.name(member): each for member, each in value.items()}
        if field == "cause":
            return _MEMBER_ID.sub(lambda found: self._names.get(found[0], found[0]), value)
        return value

    def _in_generation(self, event: GenerationSeen) -> GenerationSeen:
        present = {each.member for each in event.members}
        for name in [name for name, member_id in self._present.items() if member_id not in present]:
            del self._present[name]
        members = tuple(each._replace(member=self.name(each.member)) for each in event.members)
        return replace(event, members=members, leader=self._renamed("leader", event.leader))

    def _rename(self, old: str, new: str) -> None:
        self._names[new] = self.name(old)
        self._present[self._names[new]] = new
