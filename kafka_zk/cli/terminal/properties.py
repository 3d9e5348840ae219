"""Java ``.properties`` files, and ``key=value`` options."""

import re
from collections.abc import Iterable
from pathlib import Path

import click

from kafka_zk.cli.terminal.errors import CommandFailed

_SEPARATOR = re.compile(r"(?<!\\)(?:\\\\)*[ \t\f]*[=:]|(?<!\\)[ \t\f]+")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_NAMED_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: Path) -> dict[str, str]:
    """Raises CommandFailed."""
    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(f"{path}: {getattr(error, 'strerror', None) or error}") from None


def parse_properties(text: str) -> dict[str, str]:
    """Parse as java.util.Properties does: comments, continued lines, ``=``, ``:`` or blank between key and value."""
    properties = {}
    for line in _logical_lines(text):
        separator = _SEPARATOR.search(line)
        if separator is None:
            key, value = line, ""
        else:
            backslashes = separator.group().rstrip(" \t\f=:")
            key = line[: separator.start()] + backslashes
            value = line[separator.end() :].lstrip(" \t\f")
            if separator.group().isspace() and value[:1] in ("=", ":"):
                value = value[1:].lstrip(" \t\f")
        properties[_unescape(key)] = _unescape(value)
    return properties


def _logical_lines(text: str) -> Iterable[str]:
    pending = ""
    for raw in text.splitlines():
        line = raw.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            pending += line[:-1]
        else:
            yield pending + line
            pending = ""
    if pending:
        yield pending


def _unescape(text: str) -> str:
    """``\\uXXXX`` is a UTF-16 unit: two may form one character."""

    def replace(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _NAMED_ESCAPES.get(code, code)

    return _ESCAPE.sub(replace, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class KeyValue(click.ParamType[tuple[str, str]]):
    """``key=value``; the value may contain ``=`` and may be empty."""

    name = "key=value"

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        key, separator, text = value.partition("=")
        if not separator or not key.strip():
            self.fail(f"{value!r} is not key=value", param, ctx)
        return key.strip(), text


KEY_VALUE = KeyValue()
