"""JAAS login files: who the broker is for ZooKeeper's SASL, as Kafka's administrators write it down.

    Client {
        org.apache.zookeeper.server.auth.DigestLoginModule required
        username="kafka"
        password="secret";
    };

Read from files of the JVM option ``java.security.auth.login.config``. Only sections with a login module are looked at;
of several modules in one section the first counts. Source: javax.security.auth.login.Configuration (Java 17).
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/ | \#[^\n]*
      | (?P<word> "(?P<quoted>(?:[^"\\]|\\.)*)" | [^\s{};="]+ )
      | (?P<sign> [{};=] )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)")


class InvalidJaas(Exception):
    """The text is not a JAAS login configuration; the message says where."""


class LoginModule(NamedTuple):
    """The class of a login module and its options."""

    name: str
    options: Mapping[str, str]


def parse(text: str) -> dict[str, LoginModule]:
    """The first login module of each section. Raises: InvalidJaas."""
    tokens = _Tokens(text)
    sections = {}
    while not tokens.at_end:
        section = tokens.word()
        tokens.sign("{")
        modules = []
        while not tokens.take("}"):
            modules.append(_module(tokens))
        tokens.sign(";")
        if modules:
            sections[section] = modules[0]
    return sections


def _module(tokens: "_Tokens") -> LoginModule:
    name = tokens.word()
    tokens.word()  # required, requisite, sufficient or optional: there is one module
    options = {}
    while not tokens.take(";"):
        option = tokens.word()
        tokens.sign("=")
        options[option] = tokens.word()
    return LoginModule(name, options)


class _Tokens:
    def __init__(self, text: str) -> None:
        self._tokens = list(_tokenize(text))
        self._next = 0

    @property
    def at_end(self) -> bool:
        return self._next == len(self._tokens)

    def word(self) -> str:
        kind, value = self._take()
        if kind != "word":
            raise InvalidJaas(f"{value!r} where a name or a value is expected")
        return value

    def sign(self, sign: str) -> None:
        if self._take() != ("sign", sign):
            raise InvalidJaas(f"{self._tokens[self._next - 1][1]!r} where {sign!r} is expected")

    def take(self, sign: str) -> bool:
        """Whether the next token is ``sign``; if so it is taken."""
        if not self.at_end and self._tokens[self._next] == ("sign", sign):
            self._next += 1
            return True
        return False

    def _take(self) -> tuple[str, str]:
        if self.at_end:
            raise InvalidJaas("it ends in the middle of a section")
        self._next += 1
        return self._tokens[self._next - 1]


def _tokenize(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            line = text.count("\n", 0, position) + 1
            raise InvalidJaas(f"line {line}: a quotation mark is not closed")
        position = match.end()
        if match["quoted"] is not None:
            yield "word", _ESCAPE.sub(r"\1", match["quoted"])
        elif match["word"] is not None:
            yield "word", match["word"]
        elif match["sign"] is not None:
            yield "sign", match["sign"]
