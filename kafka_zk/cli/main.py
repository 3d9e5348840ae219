"""The command line ``kafka-zk``: one module per command, imported when it is used.

``kafka-zk --help`` must be quick, so nothing but click is imported here; each command module imports the rest of the
project inside its functions.
"""

import importlib
import os
import sys
from typing import NamedTuple

import click

from kafka_zk import __version__
from kafka_zk.cli.command_group import CommandGroup
from kafka_zk.cli.errors import CommandFailed, sentence
from kafka_zk.cli.output import note
from kafka_zk.cli.waiting import begin_command

UNEXPECTED = 70  # EX_SOFTWARE of sysexits.h
INTERRUPTED = 130
DEBUG_VARIABLE = "KAFKA_ZK_DEBUG"


class _Entry(NamedTuple):
    """``module`` is one of this package, or the whole name of one of a package above, found by its name only."""

    module: str
    help: str


COMMANDS = {
    "up": _Entry("up", "Run a whole cluster in the foreground: ZooKeeper and brokers."),
    "broker": _Entry("broker", "Run one broker of a server.properties file."),
    "zookeeper": _Entry("zookeeper", "Run one real ZooKeeper server."),
    "topics": _Entry("topics", "Create, list, describe and delete topics."),
    "produce": _Entry("produce", "Write lines of stdin or a file to a topic."),
    "consume": _Entry("consume", "Read records of partitions, or as a member of a group."),
    "watch": _Entry("watch", "Follow a group's rebalances live."),
    "offsets": _Entry("offsets", "Show the first and last offsets of partitions, or those at a time."),
    "groups": _Entry("groups", "Consumer groups in ZooKeeper: show, reset, remove, export, import."),
    "dump-log": _Entry("dump_log", "Show what lies in segment and index files."),
    "znodes": _Entry("znodes", "Show the znode tree with data and owners."),
    "extract": _Entry("kafka_zk.spark_jobs.extract", "What is new of a topic into a folder by Spark, exactly once."),
    "lesson": _Entry("lesson", "How consumer groups work, step by step on a live cluster."),
    "demo": _Entry("demo", "336,776 flights through a real cluster and back, checked."),
}


class LazyGroup(CommandGroup):
    """A group that imports a command's module only to run it or to show its own help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module = entry.module if "." in entry.module else f"kafka_zk.cli.{entry.module}"
        command: click.Command = importlib.import_module(module).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="kafka-zk COMMAND --help explains a command with examples.",
)
@click.version_option(__version__, prog_name="kafka-zk")
def cli() -> None:
    """Apache Kafka of the ZooKeeper era, in Python: brokers, tools and a demo.

    \b
    kafka-zk up                                      a cluster on 127.0.0.1:9092
    kafka-zk topics create --topic t --partitions 4
    echo hello | kafka-zk produce --topic t
    kafka-zk consume --topic t --from-beginning --max-messages 1
    """


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit: 0 success, 1 failure, 2 wrong usage, 130 interrupted. Never shows a traceback.

    With the environment variable KAFKA_ZK_DEBUG set, errors are raised instead.
    """
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """``main`` without the exit; returns the exit code."""
    begin_command()
    try:
        cli.main(args=arguments, prog_name="kafka-zk", standalone_mode=False)
        sys.stdout.flush()
        return 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except CommandFailed as error:
        note(f"Error: {error.format_message()}")
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted", err=True)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        known = sentence(error)
        if known is not None:
            note(f"Error: {known}")
            return 1
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        note(f"Error: this is a bug in kafka-zk: {text} ({DEBUG_VARIABLE}=1 shows where)")
        return UNEXPECTED
