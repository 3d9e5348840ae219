"""Command groups that suggest the nearest command for an unknown one and keep examples within 80 columns."""

import textwrap

import click

from kafka_zk.cli.terminal.nearest import did_you_mean

EXAMPLE_COLUMNS = 78
"""Columns of an example without the indentation in the source; click adds two."""


class CommandGroup(click.Group):
    """Click's own suggestions vary by version and ignore lazy commands."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.list_commands(ctx):
            hint = did_you_mean(args[0], self.list_commands(ctx))
            raise click.UsageError(f"no such command {args[0]!r}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = super().get_command(ctx, cmd_name)
        return command and with_narrow_examples(command)


def with_narrow_examples(command: click.Command) -> click.Command:
    """Wraps click's preformatted lines (after a backspace) between words."""
    paragraphs = (command.help or "").split("\n\n")
    command.help = "\n\n".join(_narrow(text) if text.lstrip().startswith("\b") else text for text in paragraphs)
    return command


def _narrow(paragraph: str) -> str:
    return "\n".join(part for line in paragraph.split("\n") for part in _broken(line))


def _broken(line: str) -> list[str]:
    indent = line[: len(line) - len(line.lstrip())]
    columns = EXAMPLE_COLUMNS + len(indent)
    if len(line) <= columns:
        return [line]
    joint = " \\" if "kafka-zk" in line else ""
    parts = textwrap.wrap(
        line, columns - len(joint), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return [part + joint for part in parts[:-1]] + parts[-1:]
