"""``ssl.principal.mapping.rules``: maps a certificate's distinguished name to a user. Pure.

Source: SslPrincipalMapper.java@3.9; KIP-371.
"""

import re
from typing import NamedTuple

from kafka_zk.security.errors import InvalidSecurity

_RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)", re.DOTALL)
_GROUP = re.compile(r"\\(.)|\$([0-9]+)", re.DOTALL)
_KEY = "ssl.principal.mapping.rules"


class _Rule(NamedTuple):
    """``pattern``: None for the rule DEFAULT, which returns the whole name."""

    pattern: re.Pattern[str] | None
    replacement: str
    case: str


class PrincipalMapper:
    """The rules of one listener. Raises InvalidSecurity."""

    def __init__(self, rules: str) -> None:
        self._rules: list[_Rule] = []
        text, position = rules.strip(), 0
        while position < len(text):
            found = _RULE.match(text, position)
            if found is None:
                raise InvalidSecurity(
                    f"{_KEY}: {text[position:]!r} is neither DEFAULT nor RULE:pattern/replacement/, .../L or .../U"
                )
            self._rules.append(_rule(found))
            position = found.end()
        if not self._rules:
            self._rules.append(_Rule(None, "", ""))

    def user(self, distinguished_name: str) -> str | None:
        """Apply the first rule that matches the whole distinguished name; None if no rule matches."""
        for rule in self._rules:
            if rule.pattern is None:
                return distinguished_name
            found = rule.pattern.fullmatch(distinguished_name)
            if found is not None:
                name = _expanded(rule.replacement, found)
                return name.lower() if rule.case == "L" else name.upper() if rule.case == "U" else name
        return None


def _rule(found: re.Match[str]) -> _Rule:
    default, pattern, replacement, case = found.groups()
    if default:
        return _Rule(None, "", "")
    try:
        return _Rule(re.compile(pattern.replace("\\/", "/")), replacement.replace("\\/", "/"), case)
    except re.error as error:
        raise InvalidSecurity(f"{_KEY}: {pattern!r} is not a regular expression: {error}") from None


def _expanded(replacement: str, found: re.Match[str]) -> str:
    """Replace ``$n`` as Java does: the longest number that names a group counts; further digits are text."""
    groups = found.re.groups

    def expand(place: re.Match[str]) -> str:
        if place[1] is not None:
            return place[1]
        digits = place[2]
        size = next((size for size in range(len(digits), 0, -1) if int(digits[:size]) <= groups), 0)
        return (found[int(digits[:size])] or "") + digits[size:] if size else "$" + digits

    return _GROUP.sub(expand, replacement)
