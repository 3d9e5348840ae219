"""White and black lists of topics: Kafka's TopicFilter, with Java's regular expressions.

Java syntax is translated where Python's differs, and rejected where that is impossible. Topic names contain only
letters, digits and ``._-``, so differences in line ends and beyond ASCII do not matter.
    Java                      here
    \\p{Alpha}, \\p{Digit} ..   the same as an ASCII range
    \\Q...\\E                   escaped text
    \\z, \\Z                    \\Z
    (?<name>...), \\k<name>    (?P<name>...), (?P=name)
    rejected                  unions and intersections in classes ([a-c[x]], [a-z&&b]), octal, control and named
                              characters, \\G, \\R, \\X, other properties, references above 9, flags other than i, s and
                              m or not at the start, and everything that Python's ``re`` rejects

Compared with Java by ``tests/peers/groups/test_assignors.py``.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from kafka_zk.registry.znodes.consumers import WHITE_LIST

INTERNAL_TOPICS = frozenset({"__consumer_offsets"})
"""The internal topics of Kafka 0.8.2 to 0.10.2, without ``__transaction_state``."""

_JAVA_TRIM = "".join(map(chr, range(0x21)))
_CACHED_PATTERNS = 256
_PROPERTIES = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "XDigit": "0-9a-fA-F",
    "Punct": r"!-/:-@\[-`{-~",
    "ASCII": r"\x00-\x7f",
}
# Escapes with the same meaning in both dialects, outside and inside a class.
_COMMON_ESCAPES = frozenset("dDwWsS")
_OUTSIDE_ONLY_ESCAPES = {"b": r"\b", "B": r"\B", "A": r"\A", "z": r"\Z", "Z": r"\Z"}
# Python warns about these in a class. A closing bracket gets here only as the first character.
_ODD_IN_CLASS = frozenset("]&~|")
_HEX_ESCAPE = re.compile(r"x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}")
_PROPERTY = re.compile(r"([pP])\{(\w+)\}")
_GROUP_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9]*")
_LEADING_FLAGS = re.compile(r"\(\?[ism]+\)")
_GROUP_OPENING = re.compile(r"\(\?(?::|=|!|>|<=|<!|[ism]+:)")
_REPETITION = re.compile(r"\{\d+(?:,\d*)?\}")


class InvalidTopicFilter(ValueError):
    """Kafka's consumer rejects the regular expression as well, or Python cannot express it."""


def normalized(raw_regex: str) -> str:
    """The user's text as Kafka registers it: without spaces and outer quotes, with commas as alternatives."""
    regex = raw_regex.strip(_JAVA_TRIM).replace(",", "|").replace(" ", "")
    return regex.lstrip("\"'").rstrip("\"'")


def topic_filter(pattern: str, raw_regex: str, *, exclude_internal_topics: bool = True) -> Callable[[str], bool]:
    """A predicate on topic names for a registration's ``white_list`` or ``black_list``; the whole name must match.

    Raises: InvalidTopicFilter.
    Source: TopicFilter.scala@0.10.2.
    """
    matches = java_pattern(normalized(raw_regex)).fullmatch
    wanted = pattern == WHITE_LIST

    def allowed(topic: str) -> bool:
        return bool(matches(topic)) == wanted and not (exclude_internal_topics and topic in INTERNAL_TOPICS)

    return allowed


@lru_cache(_CACHED_PATTERNS)
def java_pattern(regex: str) -> re.Pattern[str]:
    """Raises: InvalidTopicFilter."""
    flags = _LEADING_FLAGS.match(regex)
    position = flags.end() if flags else 0
    translated = [regex[:position]]
    while position < len(regex):
        text, position = _next(regex, position)
        translated.append(text)
    try:
        return re.compile("".join(translated), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise _refused(regex, str(error)) from error


class _Piece(NamedTuple):
    """``end``: where the next piece starts."""

    text: str
    end: int


def _next(regex: str, position: int) -> _Piece:
    character = regex[position]
    if character == "\\":
        return _escape(regex, position + 1, in_class=False)
    if character == "[":
        return _class(regex, position + 1)
    if regex.startswith("(?", position):
        return _group(regex, position)
    if character == "{":
        repetition = _REPETITION.match(regex, position)
        if not repetition:
            raise _refused(regex, "illegal repetition")
        return _Piece(repetition[0], repetition.end())
    return _Piece(character, position + 1)


def _escape(regex: str, position: int, *, in_class: bool) -> _Piece:
    """``position`` is after the backslash."""
    if position == len(regex):
        raise _refused(regex, "it ends with a backslash")
    character = regex[position]
    if character == "Q":
        end = regex.find("\\E", position)
        quoted = regex[position + 1 : end if end >= 0 else len(regex)]
        return _Piece(re.escape(quoted), end + 2 if end >= 0 else len(regex))
    if character in _COMMON_ESCAPES or not character.isalnum():
        return _Piece("\\" + character, position + 1)
    if hexadecimal := _HEX_ESCAPE.match(regex, position):
        return _Piece("\\" + hexadecimal[0], hexadecimal.end())
    if named := _PROPERTY.match(regex, position):
        return _property(regex, named, in_class=in_class)
    if not in_class:
        if character in _OUTSIDE_ONLY_ESCAPES:
            return _Piece(_OUTSIDE_ONLY_ESCAPES[character], position + 1)
        if character in "123456789" and not regex[position + 1 : position + 2].isdigit():
            return _Piece("\\" + character, position + 1)
        if regex.startswith("k<", position):
            name, end = _group_name(regex, position + 2)
            return _Piece(f"(?P={name})", end)
    raise _refused(regex, f"\\{character} cannot be translated")


def _property(regex: str, named: re.Match[str], *, in_class: bool) -> _Piece:
    negated, ranges = named[1] == "P", _PROPERTIES.get(named[2])
    if ranges is None or (negated and in_class):
        raise _refused(regex, f"\\{named[0]} cannot be translated")
    text = ranges if in_class else f"[{'^' if negated else ''}{ranges}]"
    return _Piece(text, named.end())


def _class(regex: str, position: int) -> _Piece:
    """``position`` is after the opening bracket; a closing bracket there is a literal in both dialects."""
    text = "["
    if regex.startswith("^", position):
        text, position = "[^", position + 1
    first = position
    while position < len(regex):
        character = regex[position]
        if character == "]" and position > first:
            return _Piece(text + "]", position + 1)
        if character == "[" or regex.startswith("&&", position):
            raise _refused(regex, "unions and intersections of classes cannot be translated")
        if character == "\\":
            piece, position = _escape(regex, position + 1, in_class=True)
            text += piece
        else:
            odd = character in _ODD_IN_CLASS or regex.startswith("--", position - 1)
            text, position = text + ("\\" if odd else "") + character, position + 1
    raise _refused(regex, "a class is not closed")


def _group(regex: str, position: int) -> _Piece:
    """``position`` is at ``(?``."""
    if opening := _GROUP_OPENING.match(regex, position):
        return _Piece(opening[0], opening.end())
    if regex.startswith("(?<", position):
        name, end = _group_name(regex, position + 3)
        return _Piece(f"(?P<{name}>", end)
    raise _refused(regex, f"the group at {position} cannot be translated")


def _group_name(regex: str, position: int) -> tuple[str, int]:
    name = _GROUP_NAME.match(regex, position)
    if not name or not regex.startswith(">", name.end()):
        raise _refused(regex, f"no group name at {position}")
    return name[0], name.end() + 1


def _refused(regex: str, why: str) -> InvalidTopicFilter:
    return InvalidTopicFilter(f"the topic filter {regex!r} cannot be used: {why}")
