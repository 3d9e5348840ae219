"""Parses JAAS login configurations, in which Java's administrators write credentials.

    KafkaClient {
        org.apache.kafka.common.security.scram.ScramLoginModule required
        username="alice"
        password="secret";
    };

A file (JVM option ``java.security.auth.login.config``) has sections of login modules. A property (``sasl.jaas.config``)
is one module. Messages do not repeat the input, which may contain passwords.
Source: JaasContext.java, JaasConfig.java@3.9; javax.security.auth.login.Configuration (Java 17).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/ | \#[^\n]*
      | (?P<word> "(?P<double>(?:[^"\\]|\\.)*)" | '(?P<single>(?:[^'\\]|\\.)*)' | [^\s{};="']+ )
      | (?P<sign> [{};=] )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_FLAGS = ("required", "requisite", "sufficient", "optional")


class InvalidJaas(ValueError):
    """The message says where the error is, and repeats no value."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """``repr`` omits the options, which may be secrets."""

    name: str
    options: Mapping[str, str] = field(repr=False)


def parse_file(text: str) -> dict[str, tuple[LoginModule, ...]]:
    """Parse a file: section name -> login modules. Raises InvalidJaas."""
    tokens = _Tokens(text)
    sections = {}
    while not tokens.at_end():
        section = tokens.word()
        tokens.sign("{")
        modules = []
        while not tokens.take("}"):
            modules.append(_module(tokens))
        tokens.sign(";")
        sections[section] = tuple(modules)
    return sections


def parse_property(text: str) -> LoginModule:
    """Raises InvalidJaas."""
    tokens = _Tokens(text)
    if tokens.at_end():
        raise InvalidJaas("it is empty; a login module is needed, such as `….ScramLoginModule required username=…;`")
    module = _module(tokens)
    if not tokens.at_end():
        raise InvalidJaas("something follows the ';' of the login module; exactly one module is allowed")
    return module


def property_text(module: LoginModule) -> str:
    """The ``sasl.jaas.config`` text of a module."""
    options = (f" {name}={_quoted(value)}" for name, value in module.options.items())
    return f"{module.name} required{''.join(options)};"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _module(tokens: "_Tokens") -> LoginModule:
    name = tokens.word()
    if tokens.word().lower() not in _FLAGS:
        raise InvalidJaas(f"{tokens.place}: one of {', '.join(_FLAGS)} is expected after the login module's class")
    options = {}
    while not tokens.take(";"):
        option = tokens.word()
        tokens.sign("=")
        options[option] = tokens.word()
    return LoginModule(name, options)


class _Tokens:
    """``place``: line of the last token taken."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokenize(text))
        self._next = 0

    def at_end(self) -> bool:
        return self._next == len(self._tokens)

    @property
    def place(self) -> str:
        return f"line {self._tokens[self._next - 1][2]}"

    def word(self) -> str:
        kind, value = self._take("a name or a value")
        if kind != "word":
            raise InvalidJaas(f"{self.place}: {value!r} where a name or a value is expected")
        return value

    def sign(self, sign: str) -> None:
        kind, value = self._take(repr(sign))
        if (kind, value) != ("sign", sign):
            found = repr(value) if kind == "sign" else "a word"
            raise InvalidJaas(f"{self.place}: {found} where {sign!r} is expected")

    def take(self, sign: str) -> bool:
        if not self.at_end() and self._tokens[self._next][:2] == ("sign", sign):
            self._next += 1
            return True
        return False

    def _take(self, expected: str) -> tuple[str, str]:
        if self.at_end():
            raise InvalidJaas(f"it ends where {expected} is expected")
        self._next += 1
        return self._tokens[self._next - 1][:2]


def _tokenize(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield kind, value and line number of each token."""
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        line = text.count("\n", 0, position) + 1
        if match is None:
            raise InvalidJaas(f"line {line}: a quotation mark is not closed")
        position = match.end()
        quoted = match["double"] if match["double"] is not None else match["single"]
        if quoted is not None:
            yield "word", _ESCAPE.sub(r"\1", quoted), line
        elif match["word"] is not None:
            yield "word", match["word"], line
        elif match["sign"] is not None:
            yield "sign", match["sign"], line
