"""Extracts the reason for a Spark failure, in one sentence, from a Java trace or a task's Python traceback."""

import re

_OURS = "kafka_zk.spark_jobs.errors."
_CAUSE = "Caused by: "
_EXCEPTION = re.compile(r"^(?:[\w$]+\.)+([\w$]*(?:Exception|Error)): ")
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+")
_SAYS_NOTHING = "SparkException: "
_ADVICE = ". Consider setting "
_TRACEBACK = "Traceback (most recent call last):"
_ABSENT = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_LACKS = (
    "the Python of the executors lacks {}: install kafka-zk[spark] there, and give its interpreter in PYSPARK_PYTHON"
)
_STAYS = (
    "AnalysisException", "ParseException", "IllegalArgumentException", "UnsupportedOperationException",
    "ValidationException", "ModuleNotFoundError", "NOT_NULL", "[DELTA_", "_delta_log/",
)  # fmt: skip
"""Strings in errors that recur in every run, because the configuration, the columns or the table cause them."""
_PASSES = ("[DELTA_CONCURRENT", "No space left on device")
_NOISE = re.compile(r"^An error occurred while calling ")


def first_line(error: Exception) -> str:
    for line in str(error).splitlines():
        text = line.strip().removeprefix(": ")
        if text and not _NOISE.match(text):
            return _tidy(text)
    return type(error).__name__


def reason(error: Exception) -> str:
    """This project's error in a task, else the task's Python error, else the deepest Java cause with a message, else
    the first line.
    """
    lines = [line.strip() for line in str(error).splitlines()]
    if ours := [line for line in lines if _OURS in line]:
        return ours[-1].partition(_OURS)[2].partition(": ")[2]
    if raised := _raised(str(error)):
        absent = _ABSENT.match(raised)
        return _LACKS.format(absent[1]) if absent else raised
    causes = [line.removeprefix(_CAUSE) for line in lines if line.startswith(_CAUSE)]
    if told := [cause for cause in causes if _EXCEPTION.match(cause)]:  # a cause without a message explains nothing
        return _tidy(told[-1])
    return first_line(error)


def _raised(text: str) -> str | None:
    """The last line of the first Python traceback, which is its first line without indentation; None without one."""
    _, found, trace = text.partition(_TRACEBACK)
    return next((line.strip() for line in trace.splitlines()[1:] if line[:1].strip()), None) if found else None


def advice(error: Exception) -> str:
    """What to do after a Spark failure: change something, if another run would fail in the same way."""
    text = f"{type(error).__name__}: {error}"
    if any(mark in text for mark in _STAYS) and not any(mark in text for mark in _PASSES):
        return "running it again would fail, too: change the options or the target first, then the next run continues"
    return "run it again, it continues where it stopped"


def _tidy(text: str) -> str:
    told = _SQLSTATE.sub("", _EXCEPTION.sub(r"\1: ", text)).strip()
    return told.removeprefix(_SAYS_NOTHING).partition(_ADVICE)[0]
