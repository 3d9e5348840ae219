"""The judge of authorization compares the decisions of brokers with ZooKeeper's ACL znodes.

It parses the znodes itself and shares no code with ``AclRules``. A decision must follow from a state of ZooKeeper
between the broker's *floor* and now. While ZooKeeper responds to a broker, its floor is OLDEST_MS ago. The floor does
not move while the broker is cut off or paused, and moves again when ZooKeeper has responded for OLDEST_MS.

Nearly every decision follows from one state. But a broker reads the patterns one by one, and Kafka announces a change
after making it. A broker may therefore know the newest ACLs of one pattern, and ACLs of another one that are some
milliseconds old. So each pattern is judged separately: its ACLs must be those of some moment in that time.
"""

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

OLDEST_MS = 1_000
"""Maximum age of the ACLs behind a decision while ZooKeeper responds (issue 43)."""

ROOTS = {"/kafka-acl/": False, "/kafka-acl-extended/prefixed/": True}
"""Path prefix of patterns' ACLs -> whether the patterns are prefixed."""

OPERATIONS = {
    "All", "Read", "Write", "Create", "Delete", "Alter", "Describe", "ClusterAction", "DescribeConfigs", "AlterConfigs",
    "IdempotentWrite", "CreateTokens", "DescribeTokens",
}  # fmt: skip
_INCLUDED_IN = {"Describe": {"Read", "Write", "Delete", "Alter"}, "DescribeConfigs": {"AlterConfigs"}}


class Question(NamedTuple):
    """Question: may ``principal`` perform the operation from ``host``? Operation and type are spelled as in znodes."""

    principal: str
    host: str
    operation: str
    resource_type: str
    name: str


class Pattern(NamedTuple):
    is_prefixed: bool
    resource_type: str
    name: str

    def applies_to(self, question: Question) -> bool:
        if self.resource_type != question.resource_type:
            return False
        if self.is_prefixed:
            return question.name.startswith(self.name)
        return self.name in ("*", question.name)


Entries = Sequence[Mapping[str, str]] | None
"""The ACLs of a znode; None if it cannot be parsed, in which case everything is denied."""


def pattern_of(path: str) -> Pattern | None:
    """The pattern whose ACLs are in the znode; None for any other znode."""
    for root, is_prefixed in ROOTS.items():
        resource_type, slash, name = path.removeprefix(root).partition("/")
        if path.startswith(root) and slash:
            return Pattern(is_prefixed, resource_type, name)
    return None


def entries_of(data: bytes | None) -> Entries:
    try:
        document: Any = json.loads(data or b'{"version":1,"acls":[]}')
        entries: Any = document["acls"]
        known = document["version"] == 1 and all(
            each["operation"] in OPERATIONS and each["permissionType"] in ("Allow", "Deny") for each in entries
        )
    except (ValueError, KeyError, TypeError):
        return None
    return tuple(entries) if known else None


class _Said(NamedTuple):
    """What one pattern's ACLs say about a question."""

    denies: bool
    allows: bool
    is_there: bool = True


def _said(entries: Entries, question: Question) -> _Said:
    if entries is None:
        return _Said(True, False)
    who, where = (question.principal, "User:*"), (question.host, "*")
    mine = [each for each in entries if each["principal"] in who and each["host"] in where]
    denied = {each["operation"] for each in mine if each["permissionType"] == "Deny"}
    allowed = {each["operation"] for each in mine if each["permissionType"] == "Allow"}
    wanted = {"All", question.operation}
    return _Said(bool(denied & wanted), bool(allowed & (wanted | _INCLUDED_IN.get(question.operation, set()))))


class Content:
    """All ACLs at one moment."""

    def __init__(self, since_ms: float, acls: Mapping[Pattern, Entries]) -> None:
        self.since_ms = since_ms
        self.acls = acls
        self._known: dict[Question, bool] = {}

    def allows(self, question: Question, *, if_none: bool) -> bool:
        known = self._known.get(question)
        if known is None:
            said = [_said(acls, question) for pattern, acls in self.acls.items() if pattern.applies_to(question)]
            denied, allowed = any(each.denies for each in said), any(each.allows for each in said)
            known = self._known[question] = not denied and (allowed or (if_none and not said))
        return known


def follows_from_several(contents: Sequence[Content], question: Question, *, allowed: bool, if_none: bool) -> bool:
    """Whether the decision is possible if each pattern has its ACLs of any one of these moments."""
    patterns = {each for content in contents for each in content.acls if each.applies_to(question)}
    options = [{_said_in(content, pattern, question) for content in contents} for pattern in patterns]
    if not allowed:
        silent = all(any(not each.allows for each in those) for those in options)
        named = any(not each.allows and each.is_there for those in options for each in those)
        return any(each.denies for those in options for each in those) or (silent and (named or not if_none))
    unforbidden = all(any(not each.denies for each in those) for those in options)
    permitted = any(each.allows and not each.denies for those in options for each in those)
    unnamed = all(any(not each.is_there for each in those) for those in options)
    return (unforbidden and permitted) or (if_none and unnamed)


def _said_in(content: Content, pattern: Pattern, question: Question) -> _Said:
    if pattern not in content.acls:
        return _Said(False, False, is_there=False)
    return _said(content.acls[pattern], question)


class AclJudge:
    """``if_none``: allow.everyone.if.no.acl.found. ``super_user`` may do everything.

    Attributes:
        broken: violations, as sentences.
        decisions: number of judged decisions.
        allowed: number of decisions that allowed the operation.
        of_several: number of decisions that follow from no single moment.
    """

    def __init__(self, super_user: str, *, if_none: bool) -> None:
        self._super_user = super_user
        self._if_none = if_none
        self._contents = [Content(-1.0, {})]
        self._floors: dict[str, float] = {}
        self._answered_since: dict[str, float] = {}
        self.broken: list[str] = []
        self.decisions = 0
        self.allowed = 0
        self.of_several = 0

    # -- input --------------------------------------------------------------------------------------------------------

    def written(self, now_ms: float, path: str, data: bytes | None, *, is_there: bool) -> None:
        """Record the content of a znode from now on."""
        pattern = pattern_of(path)
        if pattern is None:
            return
        acls = dict(self._contents[-1].acls)
        acls.pop(pattern, None)
        entries = entries_of(data)
        if is_there and (entries is None or entries):
            acls[pattern] = entries
        self._contents.append(Content(now_ms, acls))

    def started(self, now_ms: float, broker: str) -> None:
        """Called when a broker process has started and has not read anything yet."""
        self._floors[broker] = now_ms
        self._answered_since.pop(broker, None)

    def sampled(self, now_ms: float, broker: str, *, is_answered: bool) -> None:
        """Called regularly. ``is_answered``: the broker runs, and ZooKeeper responds to it."""
        if not is_answered:
            self._answered_since.pop(broker, None)
        elif now_ms - self._answered_since.setdefault(broker, now_ms) >= OLDEST_MS:
            self._floors[broker] = max(self._floors[broker], now_ms - OLDEST_MS)

    # -- judgements ---------------------------------------------------------------------------------------------------

    def decided(self, now_ms: float, broker: str, question: Question, *, allowed: bool, is_loaded: bool) -> None:
        """Judge a broker's decision. Before its ACLs are loaded, only the super user may do anything."""
        self.decisions += 1
        self.allowed += allowed
        if question.principal == self._super_user:
            if not allowed:
                self.broken.append(f"{now_ms:.3f}: {broker} denies the super user {_words(question)}")
        elif not is_loaded:
            if allowed:
                self.broken.append(f"{now_ms:.3f}: {broker} fails open: it knows no ACLs, and {_words(question)}")
        elif not self._follows(self._floors[broker], now_ms, question, allowed=allowed):
            self.broken.append(self._told(now_ms, broker, question, allowed=allowed))

    def answered(self, floor_ms: float, now_ms: float, broker: str, question: Question, *, allowed: bool) -> None:
        """Judge a response. ``floor_ms``: the broker's floor when the request was sent."""
        if not self._follows(floor_ms, now_ms, question, allowed=allowed):
            self.broken.append(f"over the wire: {self._told(now_ms, broker, question, allowed=allowed)}")

    def floor(self, broker: str) -> float:
        return self._floors[broker]

    def _follows(self, floor_ms: float, now_ms: float, question: Question, *, allowed: bool) -> bool:
        if any(each.allows(question, if_none=self._if_none) is allowed for each in self._window(floor_ms, now_ms)):
            return True
        self.of_several += 1
        contents = list(self._window(floor_ms, now_ms))
        return follows_from_several(contents, question, allowed=allowed, if_none=self._if_none)

    def _window(self, floor_ms: float, now_ms: float) -> Iterator[Content]:
        """The contents in this time, from the newest to the one that was current at ``floor_ms``."""
        newest = bisect_right(self._contents, now_ms, key=lambda each: each.since_ms) - 1
        for number in range(newest, -1, -1):
            yield self._contents[number]
            if self._contents[number].since_ms <= floor_ms:
                return

    def _told(self, now_ms: float, broker: str, question: Question, *, allowed: bool) -> str:
        what = "fails open: it allows" if allowed else "is out of date: it denies"
        age_ms = now_ms - self._floors[broker]
        return (
            f"{now_ms:.3f}: {broker} {what} what no state of the last {age_ms:.0f} ms does:"
            f" {_words(question)}; ZooKeeper has {self._shown(question)}"
        )

    def _shown(self, question: Question) -> str:
        acls = self._contents[-1].acls
        return "; ".join(
            f"{'prefix ' * each.is_prefixed}{each.name} {acls[each]}" for each in acls if each.applies_to(question)
        )


def _words(question: Question) -> str:
    return (
        f"{question.principal} from {question.host} asks to {question.operation} {question.resource_type}"
        f" {question.name}"
    )
