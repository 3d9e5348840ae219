"""Collects the errors that an Apache Kafka 3.9 process logs, without credentials. Pure.

The lines have the form of ``LOG4J_PROPERTIES``: level, logger, message; the lines of a stack trace follow an error.
"""

import re
from collections import Counter
from collections.abc import Iterable

LOG4J_PROPERTIES = """\
log4j.rootLogger=WARN, stdout
log4j.logger.org.apache.kafka.controller=INFO
log4j.logger.org.apache.kafka.metadata.migration=INFO
log4j.logger.kafka.server=INFO
log4j.logger.kafka.server.KafkaConfig=WARN
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=%d{ISO8601} %p [%c] %m%n
"""

MOST_ERRORS = 20
_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (?P<level>[A-Z]+) \[(?P<logger>[^\]]*)\] (?P<message>.*)")
_CAUSE = re.compile(r"(?:Caused by: )?(?:[\w$]+\.)+[\w$]*(?:Exception|Error)\b.*")
_KEY = re.compile(r"(?i)\b(salt|stored_?key|server_?key)=(?:\[[^\]]*\]?|[^,\s]*)")
_CREDENTIAL = re.compile(r"(Credentials not valid: |SCRAM-SHA-(?:256|512) -> ).*")
"""If Kafka cannot parse a credential, its message shows the whole credential."""
_HIDDEN = "(hidden)"
_MOST_OF_MESSAGE, MOST_CHARACTERS = 200, 500
_EXPECTED = ("NotControllerException", "InterruptedException")
"""A starting controller refuses requests, even its own, until it is elected. The thread that sends to a broker is
interrupted when the broker leaves."""


class ProcessLog:
    """``secrets``: strings that are hidden wherever they occur."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = sorted(secrets, key=len, reverse=True)
        self._errors: Counter[str] = Counter()
        self._last_error = ""

    def read(self, lines: Iterable[str]) -> None:
        for line in map(self._without_credentials, lines):
            found = _LINE.match(line)
            if found is None:
                self._continue(line)
                continue
            self._last_error = ""
            message = found["message"]
            if found["level"] in ("ERROR", "FATAL"):
                self._count(message[:_MOST_OF_MESSAGE])
            self._look(message)

    @property
    def errors(self) -> tuple[str, ...]:
        """The first MOST_ERRORS distinct errors, each with the exception that caused it."""
        return tuple(text if count == 1 else f"{text} ({count} times)" for text, count in self._errors.items())

    def _look(self, message: str) -> None:
        """Called with every message, without credentials."""

    def _count(self, text: str) -> None:
        is_kept = text in self._errors or len(self._errors) < MOST_ERRORS
        self._last_error = text if is_kept else ""
        if is_kept:
            self._errors[text] += 1

    def _continue(self, line: str) -> None:
        """Add the exception on the next line to its error."""
        if not self._last_error or not _CAUSE.match(line):
            return
        text, self._last_error = self._last_error, ""
        self._errors[text] -= 1
        if not self._errors[text]:
            del self._errors[text]
        if not any(each in line for each in _EXPECTED):
            self._count(f"{text} – {line.strip()}"[:MOST_CHARACTERS])

    def _without_credentials(self, line: str) -> str:
        for secret in self._secrets:
            line = line.replace(secret, _HIDDEN)
        return _CREDENTIAL.sub(rf"\1{_HIDDEN}", _KEY.sub(rf"\1={_HIDDEN}", line))
