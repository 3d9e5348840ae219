"""The reason of a Spark failure in one sentence, from a Java trace or a task's Python traceback."""

import re

_OURS = "kafka_zk.spark_jobs.errors."
_CAUSE = "Caused by: "
_EXCEPTION = re.compile(r"^(?:[\w$]+\.)+([\w$]*(?:Exception|Error)): ")
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+")
_SAYS_NOTHING = "SparkException: "
_ADVICE = ". Consider setting "
_NOISE = re.compile(r"^An error occurred while calling ")


def first_line(error: Exception) -> str:
    for line in str(error).splitlines():
        text = line.strip().removeprefix(": ")
        if text and not _NOISE.match(text):
            return _tidy(text)
    return type(error).__name__


def reason(error: Exception) -> str:
    """This project's error in a task, else the deepest Java cause with a message, else the first line."""
    lines = [line.strip() for line in str(error).splitlines()]
    if ours := [line for line in lines if _OURS in line]:
        return ours[-1].partition(_OURS)[2].partition(": ")[2]
    causes = [line.removeprefix(_CAUSE) for line in lines if line.startswith(_CAUSE)]
    if told := [cause for cause in causes if _EXCEPTION.match(cause)]:  # without a message, a cause explains nothing
        return _tidy(told[-1])
    return first_line(error)


def _tidy(text: str) -> str:
    told = _SQLSTATE.sub("", _EXCEPTION.sub(r"\1: ", text)).strip()
    return told.removeprefix(_SAYS_NOTHING).partition(_ADVICE)[0]
