"""A process's logs: one line per event on stderr, as text with ``key=value`` or as JSON.

It handles ``twisted.logger``, which kafka-zk uses, and Python's ``logging``, which libraries use. A call's keyword
arguments (``_log.info("registered", broker_id=0)``) become fields:

    2026-11-21T06:18:29.123Z INFO kafka_zk.broker.process.broker: registered broker_id=0 epoch=42
    {"time": "2026-11-21T06:18:29.123Z", "level": "info", "logger": "kafka_zk.broker.process.broker", "message": …}
"""

import json
import logging
import re
import sys
import time
import traceback
from collections.abc import Mapping
from typing import Any, cast

from twisted.logger import ILogObserver, LogLevel, formatEvent, globalLogBeginner

from kafka_zk.broker.process.log_file import LogFile, LogFileHandler, OwnFileHandler

CHATTY = ("kazoo", "registry.kazoo", "log_legacy", "twisted.internet")
"""Library loggers that report every connection; only their warnings are logged."""

AUTHORIZER_LOGGER = "kafka.authorizer.logger"
AUTHORIZER_LOG = "kafka-authorizer.log"
"""Kafka's name for the log of the authorizer's denials."""

_LEVELS = {
    LogLevel.debug: logging.DEBUG,
    LogLevel.info: logging.INFO,
    LogLevel.warn: logging.WARNING,
    LogLevel.error: logging.ERROR,
    LogLevel.critical: logging.CRITICAL,
}
_TWISTED_KEYS = frozenset(
    {"log_failure", "log_format", "log_level", "log_logger", "log_namespace", "log_source", "log_system", "log_time"}
    | {"isError", "log_flattened", "log_io", "log_legacy", "log_text", "log_trace"}
)
_RECORD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_PLAIN = re.compile(r"[^\s=\"]+")


def configure(*, level: str = "info", as_json: bool = False, log_file: LogFile | None = None) -> None:
    """Send all logs of this process to stderr or to a file. Call this once.

    With a file, denials go to a separate file in the same folder, AUTHORIZER_LOG, created by the first denial.

    Args:
        level: minimum: debug, info, warning or error.
    """
    handler = LogFileHandler(log_file) if log_file is not None else logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    if log_file is not None:
        own = OwnFileHandler(log_file.beside(AUTHORIZER_LOG))
        own.setFormatter(handler.formatter)
        authorizer = logging.getLogger(AUTHORIZER_LOGGER)
        authorizer.handlers[:] = [own]
        authorizer.propagate = False
    for chatty in CHATTY:
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))
    globalLogBeginner.beginLoggingTo([cast(ILogObserver, to_logging)], discardBuffer=False, redirectStandardIO=False)


def to_logging(event: Mapping[str, Any]) -> None:
    """Passes events of ``twisted.logger`` to Python's ``logging``, under their modules' names."""
    logger = logging.getLogger(event.get("log_namespace") or "twisted")
    level = _LEVELS.get(event.get("log_level"), logging.INFO)
    if not logger.isEnabledFor(level):
        return
    failure = event.get("log_failure")
    exc_info = (failure.type, failure.value, failure.getTracebackObject()) if failure else None
    template = event.get("log_format") or ""
    # The text format omits fields that the message already contains; JSON has all fields.
    fields = {key: value for key, value in event.items() if key not in _TWISTED_KEYS}
    said = frozenset(key for key in fields if f"{{{key}" in template)
    record = logger.makeRecord(logger.name, level, "", 0, formatEvent(dict(event)), (), exc_info)
    record.created = event.get("log_time", record.created)
    record.__dict__["fields"] = fields
    record.__dict__["said"] = said
    logger.handle(record)


class TextFormatter(logging.Formatter):
    """One line for people, with any traceback below."""

    def format(self, record: logging.LogRecord) -> str:
        said = record.__dict__.get("said", frozenset())
        fields = "".join(f" {key}={_text(value)}" for key, value in _fields(record).items() if key not in said)
        line = f"{_time(record)} {record.levelname} {record.name}: {record.getMessage()}{fields}"
        return line + (f"\n{_traceback(record)}" if record.exc_info else "")


class JsonFormatter(logging.Formatter):
    """One object per line, with any traceback as ``traceback``."""

    def format(self, record: logging.LogRecord) -> str:
        document = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            document["traceback"] = _traceback(record)
        return json.dumps(document, ensure_ascii=False, default=str)


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    if "fields" in record.__dict__:
        fields: Mapping[str, Any] = record.__dict__["fields"]
        return fields
    return {key: value for key, value in vars(record).items() if key not in _RECORD_ATTRIBUTES}


def _text(value: Any) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _time(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.created * 1000) % 1000:03d}Z"


def _traceback(record: logging.LogRecord) -> str:
    assert record.exc_info
    return "".join(traceback.format_exception(*record.exc_info)).rstrip()
