"""Decides by ACLs whether a principal may perform an operation: a pure core over {pattern: ACLs}.

It considers the literal pattern of the resource's name, the literal ``*`` and all the name's prefixes. Only these
patterns' ACLs for the principal and for ``User:*`` count. So the cost depends neither on other principals' ACLs nor on
the number of resources. If a pattern's ACLs are unknown, everyone except super users is denied.

    super user                                              allowed
    a DENY of the operation or ALL                          denied
    an ALLOW of it, of ALL or of one that implies it        allowed
    no ACL at all applies to the resource                   ``allow_if_none``
    otherwise                                               denied

Source: AclAuthorizer.authorizeAction, matchingAcls, authorizeByResourceType@3.9.
"""

import functools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from kafka_zk.network.addresses import peer_address
from kafka_zk.security.acl import (
    IMPLIED,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    Acls,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)

UNKNOWN_ACLS: Acls = frozenset([Acl(WILDCARD_PRINCIPAL, WILDCARD, Operation.ALL, Permission.DENY)])
"""Replaces ACLs that cannot be read or parsed."""

_LITERAL, _PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
_EVERYTHING = -1  # all bits


def _allowed_by(operation: Operation) -> int:
    if operation is Operation.ALL:
        return _EVERYTHING
    implied = [each for each, by in IMPLIED.items() if operation in by]
    return sum(1 << each for each in (operation, *implied))


_ALLOWED = {each: _allowed_by(each) for each in Operation}
_DENIED = {each: _EVERYTHING if each is Operation.ALL else 1 << each for each in Operation}


class _Rule(NamedTuple):
    """A pattern's ACLs for one principal and host (in Java's form, or ``*``).

    Attributes:
        denied, allowed: bits of operations; ``allowed`` includes implied ones, and ``denied`` takes precedence.
    """

    host: str
    denied: int
    allowed: int


_Rules = tuple[_Rule, ...]

_NO_RULES: _Rules = (_Rule(WILDCARD, 0, 0),)
"""Placeholder for indexes in which only the existence of a pattern matters; empty rules would count as no pattern."""


@functools.lru_cache(maxsize=10_000)
def _rule(host: str, denied: int, allowed: int) -> _Rule:
    """The rule for these bits. Cached, so that many patterns share one object."""
    return _Rule(host, denied, allowed)


def _rules(acls: Acls) -> dict[str, _Rules]:
    merged: dict[str, dict[str, _Rule]] = {}
    for principal, written_host, operation, permission in acls:
        host = peer_address(written_host)
        hosts = merged.setdefault(principal, {})
        rule = hosts.get(host) or _Rule(host, 0, 0)
        if permission is Permission.DENY:
            hosts[host] = _rule(host, rule.denied | _DENIED[operation], rule.allowed)
        else:
            hosts[host] = _rule(host, rule.denied, rule.allowed | _ALLOWED[operation])
    return {who: tuple(hosts.values()) for who, hosts in merged.items()}


class Reason(NamedTuple):
    """``pattern`` and ``acl`` are set if an ACL decides."""

    is_allowed: bool
    text: str
    pattern: Pattern | None = None
    acl: Acl | None = None

    def __str__(self) -> str:
        return self.text if self.pattern is None else f"{self.text} of {self.pattern}"


class _Names:
    """Rules by literal name and by prefix. Invariant: ``_lengths`` counts the prefixes by length."""

    def __init__(self) -> None:
        self.literal: dict[str, _Rules] = {}
        self.prefixed: dict[str, _Rules] = {}
        self._lengths: Counter[int] = Counter()
        self._cuts: tuple[slice, ...] = ()  # one slice per prefix length, which cuts a name to that length

    def put(self, pattern: Pattern, rules: _Rules) -> None:
        if pattern.pattern_type is _LITERAL:
            self.literal[pattern.name] = rules
        else:
            if pattern.name not in self.prefixed:
                self._count(len(pattern.name), 1)
            self.prefixed[pattern.name] = rules

    def remove(self, pattern: Pattern) -> None:
        if pattern.pattern_type is _LITERAL:
            self.literal.pop(pattern.name, None)
        elif self.prefixed.pop(pattern.name, None) is not None:
            self._count(len(pattern.name), -1)

    def _count(self, length: int, more: int) -> None:
        self._lengths[length] += more
        if not self._lengths[length]:
            del self._lengths[length]
        if len(self._lengths) != len(self._cuts):
            self._cuts = tuple(map(slice, self._lengths))

    @property
    def is_empty(self) -> bool:
        return not (self.literal or self.prefixed)

    def patterns_of(self, resource_type: ResourceType, name: str) -> list[Pattern]:
        """The name's own pattern, ``*``, then its prefixes, longest first."""
        literal = [Pattern(resource_type, each, _LITERAL) for each in {name: 0, WILDCARD: 0} if each in self.literal]
        prefixes = (name[:each] for each in sorted(self._lengths, reverse=True) if each <= len(name))
        return literal + [Pattern(resource_type, each, _PREFIXED) for each in prefixes if each in self.prefixed]

    def prefixes_of(self, name: str) -> Iterable[_Rules]:
        """Rules of all prefixes of the name, without a Python loop over the lengths. A slice beyond the end is the
        whole name, so rules may appear twice."""
        return filter(None, map(self.prefixed.get, map(name.__getitem__, self._cuts)))

    def rules_of(self, name: str) -> Iterable[_Rules]:
        """Rules of all patterns that apply to the name; some may appear twice."""
        get = self.literal.get
        prefixes = map(self.prefixed.get, map(name.__getitem__, self._cuts))
        return filter(None, (get(name), get(WILDCARD), *prefixes))


_UNDECIDED, _IS_ALLOWED, _IS_DENIED = range(3)  # if there are several verdicts, the largest wins


class _Verdicts(dict[_Rules, int]):
    """Cache: a pattern's rules -> verdict on one operation from one host. Many patterns have equal rules."""

    def __init__(self, host: str, operation: Operation) -> None:
        super().__init__()
        self._host = host
        self._operation = operation

    def __missing__(self, rules: _Rules) -> int:
        says = self[rules] = (
            _IS_DENIED if _says(rules, self._host, self._operation, denied=True)
            else _IS_ALLOWED if _says(rules, self._host, self._operation)
            else _UNDECIDED
        )  # fmt: skip
        return says


class Reach(dict[str, bool]):
    """Resource name -> True if one operation is allowed to one principal from one host. Names are decided at their
    first lookup, so a Reach is valid for one ``generation`` of ``AclRules``."""

    def __init__(self, concerned: Sequence[_Names], verdicts: _Verdicts, if_none: _Names | None) -> None:
        super().__init__()
        self._concerned = concerned
        self._verdict = verdicts.__getitem__
        self._if_none = if_none  # the type's patterns, if resources without ACLs are allowed

    def __missing__(self, name: str) -> bool:
        verdict = _UNDECIDED
        for names in self._concerned:
            verdict = max(verdict, max(map(self._verdict, names.rules_of(name)), default=_UNDECIDED))
        decision = self[name] = verdict == _IS_ALLOWED or (verdict == _UNDECIDED and self._is_free(name))
        return decision

    def _is_free(self, name: str) -> bool:
        return self._if_none is not None and not any(True for _ in self._if_none.rules_of(name))


class AclRules:
    """The cluster's ACLs.

    Attributes:
        unknown: pattern -> why its ACLs are unknown; ``acls`` has UNKNOWN_ACLS for it.
        generation: number of changes; until the next one, decisions are valid.
    """

    def __init__(self, super_users: Collection[str] = (), *, allow_if_none: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._allow_if_none = allow_if_none
        self._acls: dict[Pattern, Acls] = {}
        self._patterns: dict[str, _Names] = {each.label: _Names() for each in ResourceType}
        self._by_principal: dict[str, dict[str, _Names]] = {each.label: {} for each in ResourceType}
        self.unknown: dict[Pattern, str] = {}
        self.generation = 0

    @property
    def acls(self) -> Mapping[Pattern, Acls]:
        """Pattern -> its ACLs, never empty; UNKNOWN_ACLS for the patterns in ``unknown``."""
        return self._acls

    def put(self, pattern: Pattern, acls: Acls, why_unknown: str | None = None) -> None:
        """Replace a pattern's ACLs; an empty set removes it. ``why_unknown``: set if the ACLs are unknown; the pattern
        then denies everything."""
        if why_unknown is None:
            self.unknown.pop(pattern, None)
        else:
            acls, self.unknown[pattern] = UNKNOWN_ACLS, why_unknown
        before = self._acls.get(pattern)
        if acls == (before or frozenset()):
            return
        rules_of = _rules(acls)  # before the change: if this fails, the ACLs that deny stay in force
        self.generation += 1
        if before:
            self._remove(pattern, before)
        if acls:
            self._acls[pattern] = acls
            label = pattern.resource_type.label
            self._patterns[label].put(pattern, _NO_RULES)
            for principal, rules in rules_of.items():
                self._by_principal[label].setdefault(principal, _Names()).put(pattern, rules)

    def keep_only(self, patterns: Collection[Pattern]) -> None:
        for pattern in self._acls.keys() - patterns:
            self.put(pattern, frozenset())

    def _remove(self, pattern: Pattern, acls: Acls) -> None:
        del self._acls[pattern]
        label = pattern.resource_type.label
        self._patterns[label].remove(pattern)
        by_principal = self._by_principal[label]
        for principal in {acl.principal for acl in acls}:
            names = by_principal[principal]
            names.remove(pattern)
            if names.is_empty:
                del by_principal[principal]

    # -- decisions ----------------------------------------------------------------------------------------------------

    def is_super_user(self, principal: str) -> bool:
        return principal in self._super_users

    def allows(self, principal: str, host: str, operation: Operation, resource_type: str, name: str) -> bool:
        """True if the principal may perform the operation from ``host``. ``resource_type``: a
        ``ResourceType.label``."""
        if principal in self._super_users:
            return True
        return self.reach(principal, host, operation, resource_type)[name]

    def reach(self, principal: str, host: str, operation: Operation, resource_type: str) -> Reach:
        """Like ``allows``, for many names; not for super users."""
        by_principal = self._by_principal[resource_type]
        concerned = [by_principal[who] for who in (principal, WILDCARD_PRINCIPAL) if who in by_principal]
        if_none = self._patterns[resource_type] if self._allow_if_none else None
        return Reach(concerned, _Verdicts(host, operation), if_none)

    def allows_any(self, principal: str, host: str, operation: Operation, resource_type: str) -> bool:
        """True if the principal may perform the operation on some resource of the type, which need not exist.

        An ALLOW counts unless a DENY covers all of its resources.
        """
        if principal in self._super_users:
            return True
        concerned = [
            names
            for who in (principal, WILDCARD_PRINCIPAL)
            if (names := self._by_principal[resource_type].get(who)) is not None
        ]

        def denies(all_rules: Iterable[_Rules]) -> bool:
            return any(_says(rules, host, operation, denied=True) for rules in all_rules)

        if denies(names.literal.get(WILDCARD, ()) for names in concerned):
            return False
        if self._allow_if_none:
            return True
        for names in concerned:
            for name, rules in names.literal.items():
                if _says(rules, host, operation) and (
                    name == WILDCARD or not denies(rules for each in concerned for rules in each.rules_of(name))
                ):
                    return True
            for name, rules in names.prefixed.items():
                if _says(rules, host, operation) and not denies(
                    rules for each in concerned for rules in each.prefixes_of(name)
                ):
                    return True
        return False

    def explain(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> Reason:
        if principal in self._super_users:
            return Reason(True, f"{principal} is a super user")
        applying = self._patterns[resource_type.label].patterns_of(resource_type, name)
        for pattern in applying:
            if pattern in self.unknown:
                return Reason(False, f"its ACLs are not known: {self.unknown[pattern]}", pattern)
        for permission in (Permission.DENY, Permission.ALLOW):
            for pattern in sorted(applying, key=lambda each: (each.name != name, each.pattern_type, -len(each.name))):
                deciding = [
                    acl for acl in self._acls[pattern]
                    if acl.permission is permission and _applies(acl, principal, host, operation)
                ]  # fmt: skip
                if deciding:
                    acl = min(deciding)
                    return Reason(permission is Permission.ALLOW, f"by the ACL {acl}", pattern, acl)
        if applying:
            return Reason(False, f"no ACL of {', '.join(map(str, applying[:3]))} allows it")
        if self._allow_if_none:
            return Reason(True, "no ACL applies to it, and allow.everyone.if.no.acl.found=true")
        return Reason(False, "no ACL applies to it")


def _says(rules: _Rules, host: str, operation: Operation, *, denied: bool = False) -> bool:
    return any(
        rule.host in (WILDCARD, host) and (rule.denied if denied else rule.allowed) >> operation & 1 for rule in rules
    )


def _applies(acl: Acl, principal: str, host: str, operation: Operation) -> bool:
    operations = _DENIED if acl.permission is Permission.DENY else _ALLOWED
    return (
        acl.principal in (principal, WILDCARD_PRINCIPAL)
        and peer_address(acl.host) in (peer_address(host), WILDCARD)
        and bool(operations[acl.operation] >> operation & 1)
    )
