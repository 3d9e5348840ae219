"""Transcripts: a text file of commands and the output that a person reads after each, on a terminal or in a pipe.

    # a comment
    == terminal            from here on in a pseudoterminal of 80 columns
    == pipe                from here on with stdout and stderr in one pipe
    $ kafka-zk topics list
    greetings
    ^C(waiting for) kafka-zk topics list      interrupted as soon as the text in brackets appears
    ? broker 0 started                        a line that may be missing: Ctrl-C comes shortly after its trigger
    [130]                                     the exit code, if it is not 0

Parts that differ from run to run are replaced. Notices of waits, which appear only on some machines, are left out where
the command is not interrupted.
"""

import itertools
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.terminal import CHUNK_BYTES, CTRL_C, TIMEOUT_S, Shell, Terminal

_COMMAND = re.compile(r"(?:\$|\^C\((?P<trigger>[^)]*)\)) (?P<line>.*)")
_NOTICE = re.compile(r"waiting for .*")
_OPTIONAL = "? "
_VOLATILE = (
    (re.compile(r"\x1b\[[\d;]*m"), ""),  # colours
    (re.compile(r"(waiting for .*) \(\d+\.\d s\)"), r"\1"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
    (re.compile(r"\b(pid|port) \d+"), r"\1 NUMBER"),
    (re.compile(r"(\"port\":)\d+"), r"\1PORT"),
    (re.compile(r"0x[0-9a-f]{8,}"), "SESSION"),
    (re.compile(r"\b1\d{12}\b"), "TIME"),
    (re.compile(r"(id |TopicId: )[\w-]{22}\b"), r"\1TOPIC-ID"),
    (re.compile(r"/\S*/(broker-\d+)/"), r"DATA/\1/"),
)


class Run(NamedTuple):
    output: str
    code: int


Execute = Callable[[str, str | None, Mapping[str, str]], Run]


def in_terminal(command: str, trigger: str | None, environ: Mapping[str, str]) -> Run:
    """Run a shell's command line in a pseudoterminal; ``trigger``: the output after which Ctrl-C is typed.

    A command that is not interrupted runs in a shell that outlives it: when the leader of a terminal's session ends,
    the kernel discards output that was not read yet.
    """
    if trigger is None:
        with Shell(Path.cwd(), environ) as shell:
            ran = shell.run(command)
        assert ran.exit_code is not None, f"{command} does not end:\n{shell.text}"
        return Run(shell.raw.replace("\r\n", "\n"), ran.exit_code)
    with Terminal(("sh", "-c", command), environ) as terminal:
        terminal.read_until(trigger)
        terminal.press(CTRL_C)
        code = terminal.read_to_the_end()
    return Run(terminal.raw.replace("\r\n", "\n").replace("^C", ""), code)


def in_pipe(command: str, trigger: str | None, environ: Mapping[str, str]) -> Run:
    """Like ``in_terminal``, with stdout and stderr in one pipe."""
    reading, writing = os.pipe()
    process = subprocess.Popen(
        ["/bin/sh", "-c", command], stdout=writing, stderr=writing, stdin=subprocess.DEVNULL, env=dict(environ),
        start_new_session=True,
    )  # fmt: skip
    os.close(writing)
    output = b""
    while chunk := os.read(reading, CHUNK_BYTES):
        output += chunk
        if trigger and trigger.encode() in output:
            trigger = None
            os.killpg(process.pid, signal.SIGINT)
    os.close(reading)
    return Run(output.decode(), process.wait(TIMEOUT_S))


EXECUTE: Mapping[str, Execute] = {"terminal": in_terminal, "pipe": in_pipe}


def played(text: str, environ: Mapping[str, str]) -> str:
    """The current transcript: the commands of ``text``, each with its output."""
    lines = []
    execute: Execute = in_pipe
    written = text.splitlines()
    for number, line in enumerate(written):
        if _is_layout(line):
            lines.append(line)
            execute = EXECUTE[line.removeprefix("== ")] if line.startswith("== ") else execute
        elif found := _COMMAND.fullmatch(line):
            lines.append(line)
            command = f"exec {found['line']}" if found["trigger"] else found["line"]
            run = execute(command, found["trigger"], environ)
            below = itertools.takewhile(lambda each: not _begins_another(each), written[number + 1 :])
            lines += with_optional(shown(run.output, found["trigger"]), below)
            lines += [f"[{run.code}]"] if run.code else []
    return "\n".join(lines) + "\n"


def _is_layout(line: str) -> bool:
    return not line or line.startswith(("#", "== "))


def _begins_another(line: str) -> bool:
    return _is_layout(line) or _COMMAND.fullmatch(line) is not None


def with_optional(seen: list[str], written: Iterable[str]) -> list[str]:
    """The lines of ``seen``, and the optional lines of ``written`` in their places, even if ``seen`` does not contain
    them.
    """
    rest = list(seen)
    lines = []
    for line in written:
        is_next = rest[:1] == [line.removeprefix(_OPTIONAL)]
        if not is_next and not line.startswith(_OPTIONAL):
            break
        lines.append(line)
        rest = rest[is_next:]
    return lines + rest


def shown(output: str, trigger: str | None) -> list[str]:
    """The lines that a person reads in sequence, including those that are overwritten, without blank ones."""
    for pattern, replacement in _VOLATILE:
        output = pattern.sub(replacement, output)
    lines: list[str] = []
    for line in output.replace("\r\x1b[K", "\n").splitlines():
        if _NOTICE.fullmatch(line) and (trigger is None or trigger not in line or line in lines):
            continue
        if line.strip():
            lines.append(line.rstrip())
    return lines
