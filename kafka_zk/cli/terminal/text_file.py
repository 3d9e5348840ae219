"""Text files that users give to commands: UTF-8, whatever the locale is."""

from typing import TextIO

import click

from kafka_zk.cli.terminal.errors import CommandFailed

TEXT_FILE = click.File("r", encoding="utf-8")
"""The type of an option; ``-`` is stdin."""


def read_lines(file: TextIO) -> list[str]:
    """All lines, with their ends. Raises: CommandFailed naming the file (`<stdin>`) if it is not UTF-8."""
    try:
        return file.readlines()
    except UnicodeDecodeError:
        raise CommandFailed(f"{file.name} is not a text file in UTF-8") from None
