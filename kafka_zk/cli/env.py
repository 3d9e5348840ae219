"""``kafka-zk env``: what is installed, what is missing, and what to do about it."""

from typing import TYPE_CHECKING

import click

from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.options import json_option

if TYPE_CHECKING:
    from kafka_zk.cli.installation import Finding

TOOLS = ("native", "java", "zookeeper", "pyspark", "docker", "podman", "kcat")
"""Names that ``--require`` takes, in addition to those of extras."""


@click.command("env", short_help="What is installed, what is missing, and what to do.")
@click.option(
    "--require", "required", metavar="NAME", multiple=True,
    help=f"Exit with 1 if this is missing: {', '.join(TOOLS)}, or an extra such as spark. Repeatable.",
)  # fmt: skip
@json_option
def command(required: tuple[str, ...], as_json: bool) -> None:
    """Show what kafka-zk finds on this machine, and how to get what is missing.

    Java and ZooKeeper are those that up, demo and the fixtures would start. The exit code is 1 if something named by
    --require is missing, otherwise 0.

    \b
    kafka-zk env
    kafka-zk env --require java --require zookeeper --json
    """
    from kafka_zk.cli.installation import findings
    from kafka_zk.cli.terminal.nearest import did_you_mean
    from kafka_zk.cli.terminal.output import print_json

    found = findings()
    names = [each.name for each in found]
    for name in required:
        if name not in names:
            raise click.UsageError(f"--require {name}: must be one of {', '.join(names)}{did_you_mean(name, names)}")
    if as_json:
        print_json([each._asdict() for each in found])
    else:
        _show(found)
    missing = [each.name for each in found if each.name in required and each.found is None]
    if missing:
        raise CommandFailed(f"missing: {', '.join(missing)}")


def _show(found: list["Finding"]) -> None:
    from kafka_zk.cli.terminal.output import print_table, say

    tools = [each for each in found if each.name in ("kafka-zk", "python", *TOOLS)]
    print_table(("name", "found", "where"), [each._asdict() for each in tools])
    there = [each.name for each in found if each not in tools and each.found is not None]
    say(f"extras: {', '.join(there) or 'none'}")
    for each in found:
        if each.advice:
            say(f"no {each.name}: {each.advice}")
