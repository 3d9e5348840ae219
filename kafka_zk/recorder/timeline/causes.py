"""Finds the causes of a rebalance. Pure."""

import re
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

_MEMBERSHIP = re.compile(r"(\S+) (came|went)")
_EXPLAINED_BY_MEMBERS = ("started", "this member leaves", "the session ended", "a member was replaced")


class MemberChanges(NamedTuple):
    """Members by consumer id, in the order of the changes."""

    joined: tuple[str, ...] = ()
    returned: tuple[str, ...] = ()  # former members
    left: tuple[str, ...] = ()  # according to their traces
    expired: tuple[str, ...] = ()  # gone without a report that they left: the session ended
    gone: tuple[str, ...] = ()  # gone without traces, for an unknown reason

    def sentences(self) -> Iterator[str]:
        yield from (f"{member} came" for member in (*self.joined, *self.returned))
        yield from (f"{member} left" for member in self.left)
        yield from (f"{member} is gone" for member in (*self.expired, *self.gone))


class MemberChange:
    """What happened to the members during one rebalance."""

    def __init__(self) -> None:
        self._came: dict[str, bool] = {}  # True for former members
        self._left: dict[str, None] = {}
        self._gone: dict[str, None] = {}

    def __bool__(self) -> bool:
        return bool(self._came or self._left or self._gone)

    def came(self, member: str, *, before: bool) -> None:
        self._came.setdefault(member, before)

    def left(self, member: str) -> None:
        self._left[member] = None

    def gone(self, member: str) -> None:
        """A member is gone; a call of ``left`` for the member may follow."""
        self._gone[member] = None

    def infer(self, causes: Iterable[str], present: Collection[str]) -> None:
        """Infer changes that only the members' reported causes name."""
        for cause in causes:
            for member, verb in _MEMBERSHIP.findall(cause):
                if verb == "came" and member in present and member not in self._came:
                    continue  # the effect of an earlier change
                if verb == "came":
                    self.came(member, before=False)
                elif member not in present:
                    self.gone(member)

    def result(self, traced: Collection[str]) -> MemberChanges:
        vanished = [member for member in self._gone if member not in self._left]
        return MemberChanges(
            tuple(member for member, before in self._came.items() if not before),
            tuple(member for member, before in self._came.items() if before),
            tuple(self._left),
            tuple(member for member in vanished if member in traced),
            tuple(member for member in vanished if member not in traced),
        )


def other_causes(causes: Iterable[str], changes: MemberChanges) -> Iterator[str]:
    """The causes that the changes of members do not explain."""
    explained = any(changes)
    for cause in causes:
        if _MEMBERSHIP.sub("", cause).strip(", ") == "":
            continue
        if explained and (cause in _EXPLAINED_BY_MEMBERS or cause.startswith("generation ")):
            continue
        yield cause
