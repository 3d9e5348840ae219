"""Writes the reference pages of the documentation from the tables in the code: ``write_all(folder)``."""

import importlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FunctionType

import click
from prometheus_client.core import CounterMetricFamily, Metric, SummaryMetricFamily

from kafka_zk.broker.config.authorizer_class import ACL_AUTHORIZER
from kafka_zk.broker.config.broker_configs import ALL_KEYS
from kafka_zk.broker.config.broker_key import BrokerKey, Use
from kafka_zk.broker.metrics.certificates import certificate_metrics
from kafka_zk.broker.metrics.collector import BrokerCollector
from kafka_zk.broker.metrics.request_stats import RequestStats
from kafka_zk.broker.metrics.watchdog import Watchdog
from kafka_zk.cli.commands import COMMANDS, cli
from kafka_zk.migration.rules import RULES
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.sim.museum.exhibits import EXHIBITS, exhibit
from kafka_zk.sim.scenarios.library import built_in
from kafka_zk.sim.scenarios.old_rules import OLD_RULES
from kafka_zk.sim.world.world import World
from kafka_zk.storage.files.config_table import TOPIC_CONFIGS

PUBLIC_PACKAGES = ("kafka_zk", "kafka_zk.testing", "kafka_zk.spark_jobs", "kafka_zk.registry")
_HELP_WIDTH = 100
_USES = {
    Use.READ: "used",
    Use.ACCEPTED: "used where it applies",
    Use.IGNORED: "kept and shown only",
}


def write_all(folder: Path) -> None:
    """Write all pages. An unchanged file keeps its modification time, so that Sphinx does not read it again."""
    folder.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        path, text = folder / f"{name}.md", "\n".join(page()) + "\n"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def commands() -> Iterator[str]:
    """The ``--help`` of each command and subcommand."""
    yield "# Commands"
    with click.Context(cli, info_name="kafka-zk", terminal_width=_HELP_WIDTH) as root:
        yield from _help(cli, root, 1)
        for name in COMMANDS:
            command = cli.get_command(root, name)
            assert command is not None
            yield from _with_subcommands(command, root, name)


def _with_subcommands(command: click.Command, parent: click.Context, name: str, level: int = 2) -> Iterator[str]:
    with click.Context(command, info_name=name, parent=parent, terminal_width=_HELP_WIDTH) as context:
        yield f"{'#' * level} `{context.command_path}`"
        yield from _help(command, context, level)
        if isinstance(command, click.Group):
            for each in command.list_commands(context):
                subcommand = command.get_command(context, each)
                assert subcommand is not None
                yield from _with_subcommands(subcommand, context, each, level + 1)


def _help(command: click.Command, context: click.Context, level: int) -> Iterable[str]:
    return ["", "```text", command.get_help(context), "```", ""]


def configuration() -> Iterator[str]:
    """Broker keys and topic keys."""
    yield from ["# Configuration keys", "", "## Brokers", ""]
    yield "`kafka-zk broker` (`server.properties`, `--override`) and `up -o` take these keys of Apache Kafka 3.9."
    heads = ("key", "type", "default", "dynamic", "this broker", "meaning")
    yield from _table(heads, map(_broker_key, ALL_KEYS.values()))
    yield from ["", "## Topics", ""]
    rows = (
        (f"`{name}`", key.type.lower(), _code(key.format(key.default)), key.allowed, key.documentation)
        for name, key in sorted(TOPIC_CONFIGS.items())
    )
    yield from _table(("key", "type", "default", "allowed", "meaning"), rows)


def _broker_key(key: BrokerKey[object]) -> tuple[str, ...]:
    update = key.update.value if key.is_dynamic else "no"
    return f"`{key.name}`", key.type.lower(), _code(key.default_here), update, _USES[key.use], key.documentation


def error_codes() -> Iterator[str]:
    """Kafka's error codes, and which of them a client may retry."""
    yield from ["# Error codes", ""]
    rows = ((str(code.value), f"`{code.name}`", "yes" if code.retriable else "no") for code in ErrorCode)
    yield from _table(("code", "name", "retriable"), rows)


def metrics() -> Iterator[str]:
    """The metrics of a broker, collected from one on a simulated machine."""
    yield from ["# Metrics", ""]
    yield "`kafka-zk broker --metrics-port PORT` serves these to Prometheus, with those of the process and its Python."
    yield "The names are those that the JMX exporter gives Kafka's; names with `kafka_zk_` have no counterpart there."
    rows = (
        (f"`{_sample_name(each)}`", each.type, _labels(each), each.documentation)
        for each in sorted(_collected(), key=lambda metric: metric.name)
    )
    yield from _table(("name", "type", "labels", "meaning"), rows)


def _collected() -> list[Metric]:
    """All metrics of a broker: one with an authorizer, a watchdog and certificates."""
    with World(seed=0) as world:
        simulated = world.broker(1, authorizer_class_name=ACL_AUTHORIZER)
        world.start_all()
        assert simulated.broker is not None
        collector = BrokerCollector(simulated.broker.parts, simulated.client, RequestStats(), Watchdog(None))
        return [*collector.collect(), *certificate_metrics({})]


def _labels(metric: Metric) -> str:
    return ", ".join(f"`{label}`" for label in vars(metric)["_labelnames"])


def _sample_name(metric: Metric) -> str:
    """The name of the metric's samples."""
    if isinstance(metric, CounterMetricFamily):
        return f"{metric.name}_total"
    return f"{metric.name}_{{count,sum}}" if isinstance(metric, SummaryMetricFamily) else metric.name


def scenarios() -> Iterator[str]:
    """The outages of ``kafka-zk replay``: their first comment tells the story."""
    yield "# Scenarios"
    yield from ["", "`kafka-zk replay NAME` plays one on a simulated cluster; `kafka-zk replay` lists them.", ""]
    for name, path in built_in().items():
        title, story, script = _parts(path.read_text())
        yield from [f"## `{name}`: {title}", "", story, "", "```text", script, "```", ""]


def museum() -> Iterator[str]:
    """The exhibits of ``kafka-zk museum``."""
    yield from ["# Museum of the ZooKeeper era", ""]
    yield "Outages and counter-examples, each played on a simulated cluster with the old rule and with kafka-zk's:"
    yield "`kafka-zk museum NAME`. The judges find the records that the old rule lost or duplicated, and none with"
    yield "kafka-zk's rule."
    yield "[The simulator](../explanation/simulator.md) says what is simulated, and [Scenarios](scenarios.md) has the"
    yield "actions. After a change, `tests/sim/test_scenarios.py` plays all of them."
    for number, name in enumerate(EXHIBITS, 1):
        shown = exhibit(name)
        rule = OLD_RULES[shown.old_rule or ""].says
        yield from ["", f"## {number}. {shown.title}", "", f"`kafka-zk museum {name}`", "", "\n".join(shown.lesson), ""]
        yield from [f"**Question.** {shown.told.question}", "", f"**Old rule.** {rule}", ""]
        yield from [f"**Conclusion.** {shown.told.conclusion}", "", "**Sources.**", ""]
        yield from [f"- {source}" for source in shown.told.sources]


def _parts(scenario: str) -> tuple[str, str, str]:
    """The first line of its first comment, the rest of that comment, and what is played."""
    lines = scenario.splitlines()
    end = next(place for place, line in enumerate(lines) if not line.startswith("#"))
    title, *story = (line.removeprefix("#").removeprefix(" ") for line in lines[:end])
    return title, "\n".join(story).strip(), "\n".join(lines[end:]).strip()


def migration_rules() -> Iterator[str]:
    """The traps that ``kafka-zk migration check`` looks for."""
    yield from ["# Rules of `kafka-zk migration check`", ""]
    yield "[migrate.md](../how-to/migrate.md#check-a-migration-to-kraft) says when to run it, and what it may read."
    rows = ((f"`{each.name}`", each.why, each.fix, each.source, each.until) for each in RULES)
    yield from _table(("rule", "why it matters", "how to fix it", "source", "until"), rows)


def python() -> Iterator[str]:
    """The docstrings of the public names; docs/reference/api.md says what they are for."""
    yield from ["# Python reference", ""]
    for package in PUBLIC_PACKAGES:
        yield from [f"## `{package}`", ""]
        module = importlib.import_module(package)
        for name in sorted(module.__all__):
            if not name.startswith("__"):
                yield from _documented(package, name, getattr(module, name))


def _documented(package: str, name: str, value: object) -> Iterable[str]:
    if isinstance(value, type):
        directive, options = "autoclass", ["   :members:", "   :inherited-members: BaseException, tuple, dict"]
    elif isinstance(value, FunctionType):
        directive, options = "autofunction", []
    else:
        return [f"### `{package}.{name}`", "", f"The type `{value}`.", ""]
    return ["```{eval-rst}", f".. {directive}:: {package}.{name}", *options, "```", ""]


def _code(text: object) -> str:
    return "" if text in (None, "") else f"`{text}`"


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield ""
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        cells = (cell.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;") for cell in row)
        yield f"| {' | '.join(cells)} |"


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "commands": commands,
    "configuration": configuration,
    "error-codes": error_codes,
    "metrics": metrics,
    "migration-rules": migration_rules,
    "museum": museum,
    "python": python,
    "scenarios": scenarios,
}
