"""Reads a new password from a prompt, stdin or a file. Never from an argument, which ``ps`` would show."""

import sys
from typing import Any, TextIO

import click

from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.text_file import read_lines
from kafka_zk.security.password import Password


def read_new_password(file: TextIO | None) -> Password:
    """The password in the file; without a file, from a prompt on a terminal, otherwise from stdin.

    Raises: CommandFailed for an empty password, several lines, or text that is not UTF-8; Abort at the end of input.
    """
    if file is None and sys.stdin is None:
        raise CommandFailed("there is no stdin to read the password from")
    if file is None and sys.stdin.isatty():
        password = _typed("Password")
        if password and _typed("Password again") != password:
            raise CommandFailed("the two passwords differ")
    else:
        stdin: Any = click.open_file("-", encoding="utf-8")
        password = _only_line(file or stdin)
    if not password:
        raise CommandFailed("the password is empty")
    try:
        password.encode()
    except UnicodeEncodeError:
        raise CommandFailed("the password is not text in UTF-8") from None
    return Password(password)


def _typed(prompt: str) -> str:
    typed: str = click.prompt(prompt, default="", show_default=False, hide_input=True, err=True)
    return typed


def _only_line(file: TextIO) -> str:
    lines = read_lines(file)
    if len(lines) > 1:
        raise CommandFailed(f"{file.name}: one line with the password is expected, not {len(lines)}")
    return "".join(lines).removesuffix("\n")
