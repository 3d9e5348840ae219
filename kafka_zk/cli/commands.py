"""The commands of ``kafka-zk``: one module per command, imported when it is used.

``kafka-zk --help`` must be quick, so nothing but click is imported here. Each command module imports inside its
functions whatever needs Twisted, kazoo or Spark; vocabularies such as ``TopicPartition`` and error codes need none.
"""

import importlib
from typing import NamedTuple

import click
from click.shell_completion import CompletionItem

from kafka_zk import __version__
from kafka_zk.cli.terminal.command_group import CommandGroup, with_narrow_examples
from kafka_zk.embedded import interrupts
from kafka_zk.network.twisted_tcp import without_pyopenssl


class _Entry(NamedTuple):
    """``module`` is relative to this package."""

    module: str
    help: str
    is_client: bool = False  # connects only to brokers and ZooKeeper, so it does not need Twisted's TLS


COMMANDS = {
    "up": _Entry("cluster.up", "Run a whole cluster in the foreground: ZooKeeper and brokers."),
    "break": _Entry("cluster.breaking", "Kill, pause, expire or cut off a broker of kafka-zk up."),
    "broker": _Entry("cluster.broker", "Run one broker of a server.properties file."),
    "zookeeper": _Entry("cluster.zookeeper", "Run one real ZooKeeper server."),
    "topics": _Entry("topics", "Create, list, describe and delete topics.", is_client=True),
    "reassign": _Entry("reassign", "Move partitions to other brokers.", is_client=True),
    "acls": _Entry("acls", "Who may do what: list, add, remove and explain ACLs.", is_client=True),
    "users": _Entry("users", "SCRAM users: list, add, remove, explain.", is_client=True),
    "elect-leaders": _Entry("elect_leaders", "Elect preferred leaders, or unclean ones.", is_client=True),
    "compact": _Entry("compact", "Have brokers clean a compacted topic now.", is_client=True),
    "produce": _Entry("produce", "Write lines of stdin or a file to a topic.", is_client=True),
    "consume": _Entry("consume", "Read records of partitions, or as a member of a group.", is_client=True),
    "watch": _Entry("watch", "Follow a group's rebalances live.", is_client=True),
    "web": _Entry("cluster.web", "See in a browser what happens to a cluster, and rewind.", is_client=True),
    "outage": _Entry(
        "cluster.outage", "Reconstruct an outage from the logs of ZooKeeper and Kafka's brokers.", is_client=True
    ),
    "offsets": _Entry("offsets", "Show the first and last offsets of partitions, or those at a time.", is_client=True),
    "groups": _Entry(
        "groups.groups", "Consumer groups, at brokers and in ZooKeeper: show, reset, migrate, remove.", is_client=True
    ),
    "quotas": _Entry("quotas", "How much users and clients may use: list, set, remove, explain.", is_client=True),
    "dump-log": _Entry("dump_log", "Show the contents of segment and index files."),
    "znodes": _Entry("znodes", "Show the znode tree with data and owners.", is_client=True),
    "zookeeper-security-migration": _Entry(
        "zookeeper_security_migration", "Protect existing znodes with ACLs, or open them.", is_client=True
    ),
    "migration": _Entry(
        "migration.migration", "Before and during a migration to KRaft: find traps, show the phase.", is_client=True
    ),
    "tier": _Entry("tier.tier", "Tiered storage: compare the bucket with the brokers' metadata.", is_client=True),
    "extract": _Entry("spark.extract", "Extract a topic's new records with Spark, exactly once."),
    "extract-status": _Entry(
        "spark.extract_status", "How far extractions are: lag, last range, unfinished plan.", is_client=True
    ),
    "lake": _Entry("spark.lake", "Check tables and folders of topics: every offset once."),
    "replay": _Entry("cluster.replay", "Play famous outages, and scenarios of your own, on a simulated cluster."),
    "museum": _Entry("cluster.museum", "Famous outages of the ZooKeeper era, with the old rule and with kafka-zk's."),
    "lesson": _Entry("cluster.lesson", "How consumer groups work, step by step on a live cluster.", is_client=True),
    "env": _Entry("env", "What is installed, what is missing, and what to do."),
    "completion": _Entry("completion", "Print the completion script of bash, zsh or fish."),
    "demo": _Entry("cluster.demo", "336,776 flights through a real cluster and back, checked.", is_client=True),
}


class LazyGroup(CommandGroup):
    """Imports a command's module only to run it or to show its own help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Run a client command without pyOpenSSL, unless only help or completions are requested."""
        name, command, rest = super().resolve_command(ctx, args)
        is_client = name in COMMANDS and COMMANDS[name].is_client and not set(ctx.help_option_names) & set(rest)
        if is_client and not ctx.resilient_parsing:
            ctx.with_resource(without_pyopenssl())
        return name, command, rest

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        with interrupts.held():
            command: click.Command = importlib.import_module(f"kafka_zk.cli.{entry.module}").command
        return with_narrow_examples(command)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """List the commands without importing them; click would import each one to see whether it is hidden."""
        names = [name for name in COMMANDS if name.startswith(incomplete)]
        items = [CompletionItem(name, help=COMMANDS[name].help) for name in names]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


def _show_version(context: click.Context, _option: click.Parameter, is_wanted: bool) -> None:
    if is_wanted and not context.resilient_parsing:
        from kafka_zk.native.loading import implementation

        click.echo(f"kafka-zk, version {__version__} ({implementation()})")
        context.exit()


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="kafka-zk COMMAND --help explains a command with examples. The environment variables KAFKA_ZK_BOOTSTRAP and "
    "KAFKA_ZK_ZOOKEEPER stand for --bootstrap-server and --zookeeper; an option wins over its variable.",
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version,
    help="Show the version, and whether the native module runs, and exit.",
)
def cli() -> None:
    """Apache Kafka of the ZooKeeper era, in Python: brokers, tools and a demo.

    \b
    kafka-zk up                                      a cluster on 127.0.0.1:9092
    kafka-zk topics create --topic t --partitions 4
    echo hello | kafka-zk produce --topic t
    kafka-zk consume --topic t --from-beginning --max-messages 1
    """
