"""Users' text files: UTF-8, independent of the locale."""

from typing import TextIO

import click

from kafka_zk.cli.terminal.errors import CommandFailed

TEXT_FILE = click.File("r", encoding="utf-8")
"""``-`` is stdin."""


def read_lines(file: TextIO) -> list[str]:
    """Read all lines with line ends. Raises CommandFailed with the file name (`<stdin>`) if it is not UTF-8."""
    try:
        return file.readlines()
    except UnicodeDecodeError:
        raise CommandFailed(f"{file.name} is not a text file in UTF-8") from None
