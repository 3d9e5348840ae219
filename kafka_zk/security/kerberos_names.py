"""Maps Kerberos principals to users by ``sasl.kerberos.principal.to.local.rules``. Pure.

    DEFAULT                                  maps alice@DEFAULT.REALM and alice/host@DEFAULT.REALM to alice
    RULE:[n:text](match)s/from/to/g/L        applies to principals of n parts. In ``text``, $1 and $2 stand for the
                                             parts, $0 for the realm. The rule applies only if ``match`` matches the
                                             whole result. Then ``to`` replaces the first ``from`` (with /g: each), and
                                             /L or /U changes the case. Everything after the bracket is optional.

The first rule that applies gives the name, which must not contain ``/`` or ``@``.
Source: KerberosName, KerberosRule, KerberosShortNamer.java@3.9.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kafka_zk.security.errors import InvalidSecurity

_PRINCIPAL = re.compile(r"([^/@\\]+)(?:/([^/@\\]*))?@([^/@\\]+)")  # a / within a part is escaped
_RULE = re.compile(
    r"DEFAULT|RULE:\[(?P<parts>\d+):(?P<text>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<source>[^/]*)/(?P<target>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?"
)
_PARAMETER = re.compile(r"\$(\d*)")


class NoUserName(ValueError):
    """No rule maps the principal to a user name."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """``parts``: number of parts of the principals to which the rule applies; 0 for the rule DEFAULT."""

    parts: int
    text: str = ""
    match: re.Pattern[str] | None = None
    source: re.Pattern[str] | None = None
    target: str = ""
    replaces_all: bool = False
    case: str = ""

    def user(self, realm: str, parts: Sequence[str], default_realm: str) -> str | None:
        """The user name; None if the rule does not apply. Raises NoUserName."""
        if not self.parts:
            name = parts[0] if realm == default_realm else None
        else:
            name = self._mapped(realm, parts) if len(parts) == self.parts else None
        if name is not None and (not name or "/" in name or "@" in name):
            raise NoUserName(f"a rule maps the principal to {name!r}, which is not a valid user name")
        if name is None or not self.case:
            return name
        return name.lower() if self.case == "L" else name.upper()

    def _mapped(self, realm: str, parts: Sequence[str]) -> str | None:
        values = (realm, *parts)
        base = _PARAMETER.sub(lambda found: values[int(found[1])] if found[1] else "", self.text)
        if self.match is not None and not self.match.fullmatch(base):
            return None
        if self.source is None:
            return base
        return self.source.sub(self.target, base, count=0 if self.replaces_all else 1)


class KerberosNames:
    """The rules of one listener. Raises InvalidSecurity for a rule that Kafka rejects, that applies to principals of
    more than two parts or of none, or that refers to an unknown part or group.

    ``default_realm``: the one in krb5.conf, or empty.
    """

    def __init__(self, rules: Sequence[str], default_realm: str) -> None:
        self._rules = [_rule(rule) for rule in rules or ["DEFAULT"]]
        self._default_realm = default_realm

    def user(self, principal: str) -> str:
        """Raises NoUserName."""
        found = _PRINCIPAL.fullmatch(principal)
        if found is None:
            raise NoUserName("the principal is not name@REALM or name/host@REALM")
        name, host, realm = found.groups()
        parts = [name] if host is None else [name, host]
        for rule in self._rules:
            user = rule.user(realm, parts, self._default_realm)
            if user is not None:
                return user
        raise NoUserName(f"no rule applies to the principal {principal}")


def _pattern(text: str | None) -> re.Pattern[str] | None:
    r"""Compile an ASCII pattern: in Java, ``\w`` and ``\d`` match only ASCII letters and digits."""
    return None if text is None else re.compile(text, re.ASCII)


def _rule(text: str) -> _Rule:
    found = _RULE.fullmatch(text)
    if found is None:
        raise InvalidSecurity(f"sasl.kerberos.principal.to.local.rules: {text!r} is not a rule")
    if text == "DEFAULT":
        return _Rule(0)
    parts = int(found["parts"])
    if parts not in (1, 2) or any(number and int(number) > parts for number in _PARAMETER.findall(found["text"])):
        raise InvalidSecurity(f"sasl.kerberos.principal.to.local.rules: {text!r}: principals have one or two parts")
    target = re.sub(r"\$(\d)", r"\\g<\1>", (found["target"] or "").replace("\\", "\\\\"))
    try:
        match, source = map(_pattern, (found["match"], found["source"]))
        if source is not None:
            source.sub(target, "")  # raises for a group that ``from`` lacks
    except (re.error, IndexError) as error:
        raise InvalidSecurity(f"sasl.kerberos.principal.to.local.rules: {text!r}: {error}") from None
    return _Rule(parts, found["text"], match, source, target, found["all"] is not None, found["case"] or "")
