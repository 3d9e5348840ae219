"""What a KRaft controller of 3.9 logs about a migration. Pure.

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
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=%d{ISO8601} %p [%c] %m%n
"""

WAITING = "Putting the controller into pre-migration mode"
COPIED = re.compile(r"Completed migration of metadata from ZooKeeper to KRaft\. (\d+) records")
SYNCED = re.compile(r"(?:Did not make any|Made the following) ZK writes when reconciling with KRaft state(.*)")
SKIPPED = "Initial migration of ZK metadata is done"
"""A new controller finds a /migration that is left over, and will make ZooKeeper equal to its own empty metadata."""
DUAL_WRITE = "to DUAL_WRITE state"
FINALIZED = "Completing the ZK migration since this controller was configured with"
STUCK = ("Still waiting for", "No brokers are known to KRaft", "Still waiting for all controller nodes")

MOST_ERRORS = 20
_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (?P<level>[A-Z]+) \[(?P<logger>[^\]]*)\] (?P<message>.*)")
_CAUSE = re.compile(r"(?:Caused by: )?(?:[\w$]+\.)+[\w$]*(?:Exception|Error)\b.*")
_KEY = re.compile(r"(?i)\b(salt|stored_?key|server_?key)=(?:\[[^\]]*\]?|[^,\s]*)")
_CREDENTIAL = re.compile(r"(Credentials not valid: |SCRAM-SHA-(?:256|512) -> ).*")
"""Kafka shows the whole credential that it cannot parse."""
_HIDDEN = "(hidden)"
_MOST_OF_MESSAGE, _MOST_CHARACTERS = 200, 500
_EXPECTED = ("NotControllerException",)
"""A controller that starts refuses requests, its own too, until it is elected."""


class ControllerLog:
    """The decisive lines so far, without credentials. ``waits_for``: the last reason for waiting, empty before one."""

    def __init__(self) -> None:
        self.is_waiting = False
        self.skips_copy = False
        self.copied_records: int | None = None
        self.writes: str | None = None
        self.is_dual_write = False
        self.is_finalized = False
        self.waits_for = ""
        self._errors: Counter[str] = Counter()
        self._last_error = ""

    def read(self, lines: Iterable[str]) -> None:
        for line in map(_without_credentials, lines):
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
        """The first MOST_ERRORS different errors, each with the exception that caused it."""
        return tuple(text if count == 1 else f"{text} ({count} times)" for text, count in self._errors.items())

    def _look(self, message: str) -> None:
        if WAITING in message:
            self.is_waiting = True
        elif found := COPIED.search(message):
            self.copied_records = int(found[1])
        elif found := SYNCED.search(message):
            self.writes = found[1].strip(" :.") or "none"
        elif SKIPPED in message:
            self.skips_copy = True
        elif DUAL_WRITE in message:
            self.is_dual_write = True
        elif FINALIZED in message:
            self.is_finalized = True
        elif any(each in message for each in STUCK):
            self.waits_for = message[:_MOST_CHARACTERS]

    def _count(self, text: str) -> None:
        is_kept = text in self._errors or len(self._errors) < MOST_ERRORS
        self._last_error = text if is_kept else ""
        if is_kept:
            self._errors[text] += 1

    def _continue(self, line: str) -> None:
        """The exception below an error is a part of it."""
        if not self._last_error or not _CAUSE.match(line):
            return
        text, self._last_error = self._last_error, ""
        self._errors[text] -= 1
        if not self._errors[text]:
            del self._errors[text]
        if not any(each in line for each in _EXPECTED):
            self._count(f"{text} – {line.strip()}"[:_MOST_CHARACTERS])


def _without_credentials(line: str) -> str:
    return _CREDENTIAL.sub(rf"\1{_HIDDEN}", _KEY.sub(rf"\1={_HIDDEN}", line))
