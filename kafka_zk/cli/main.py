"""The entry point of ``kafka-zk``: runs a command, reports its failure, and returns the exit code.

It handles Ctrl-C before it imports click and the commands. Modules that need POSIX are imported after ``unsupported``.
"""

import os
import signal
import sys

from kafka_zk.base.operating_system.support import unsupported

UNEXPECTED = 70  # EX_SOFTWARE of sysexits.h
INTERRUPTED = 130
DEBUG_VARIABLE = "KAFKA_ZK_DEBUG"


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit: 0 success, 1 failure, 2 wrong usage, 130 interrupted. Never shows a traceback.

    With the environment variable KAFKA_ZK_DEBUG set, errors are raised instead.
    """
    if reason := unsupported():
        sys.exit(f"Error: {reason}")
    from kafka_zk.embedded import interrupts

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # unless Ctrl-C is ignored
        signal.signal(signal.SIGINT, interrupts.interrupt)
    code = run(arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the exit code is decided
    _forget_interrupts()
    sys.exit(code)


def _forget_interrupts() -> None:
    """Clear a KeyboardInterrupt that CPython has kept although it was caught. CPython (seen with 3.11) keeps one that
    was raised in the ``exec`` of a string, and ``python -m`` then kills itself with SIGINT at its end.

    Dataclasses and named tuples use such ``exec`` calls, so any import may cause this. The next ``exec`` clears it.

    Source: run_eval_code_obj in Python/pythonrun.c, Py_RunMain in Modules/main.c.
    """
    exec("")


def run(arguments: list[str] | None = None) -> int:
    """Returns the exit code."""
    from kafka_zk.embedded import interrupts

    interrupts.begin()
    try:
        with interrupts.held():
            from kafka_zk.cli.commands import cli
            from kafka_zk.cli.terminal.waiting import begin_command
        begin_command()
        code = cli.main(args=arguments, prog_name="kafka-zk", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0  # the code that the command passed to Context.exit
    except KeyboardInterrupt:
        return _interrupted()
    except BrokenPipeError:  # the reader of the output has exited, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        return _failed(error)


def _interrupted() -> int:
    sys.stderr.write("Interrupted\n")
    return INTERRUPTED


def _failed(error: Exception) -> int:
    import click

    from kafka_zk.cli.terminal.errors import CommandFailed, sentence
    from kafka_zk.cli.terminal.output import note

    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.Abort):  # click replaces KeyboardInterrupt by Abort
        return _interrupted()
    if isinstance(error, click.ClickException) and not isinstance(error, CommandFailed):
        error.show()
        return error.exit_code
    if isinstance(error, CommandFailed):
        note(f"Error: {error.format_message()}")
        return error.exit_code
    if os.environ.get(DEBUG_VARIABLE):
        raise error
    known = sentence(error)
    if known is not None:
        note(f"Error: {known}")
        return 1
    text = f"{type(error).__name__}: {error}".splitlines()[0]
    note(f"Error: this is a bug in kafka-zk: {text} ({DEBUG_VARIABLE}=1 shows where)")
    return UNEXPECTED
