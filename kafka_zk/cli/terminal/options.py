"""Options that several commands share, with the names of Kafka's tools."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from kafka_zk.base.integers import COUNTS, NATURAL_INT32
from kafka_zk.cli.terminal.command_config import command_config_option, command_security

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
BOOTSTRAP_VARIABLE = "KAFKA_ZK_BOOTSTRAP"
ZOOKEEPER_VARIABLE = "KAFKA_ZK_ZOOKEEPER"

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

COUNT = click.IntRange(1, COUNTS[-1])
PARTITION = click.IntRange(0, NATURAL_INT32[-1])

WEB_PORT = 8088

json_option: Decorator = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def web_option(help: str) -> Decorator:
    """The parameter is ``web_port``; None if the option is not given."""
    kind = click.IntRange(0, 65535)
    return click.option("--web", "web_port", type=kind, is_flag=False, flag_value=WEB_PORT, help=help)


def bootstrap_servers_option(help_text: str, **attributes: Any) -> Decorator:
    """The parameter ``bootstrap`` is normalized by ``format_bootstrap_servers``.

    The decorator also adds ``--command-config``, which ``command_config.secured`` reads.
    """
    servers = click.option(
        "--bootstrap-server",
        "bootstrap",
        metavar="HOST:PORT[,...]",
        callback=_bootstrap_servers,
        help=help_text,
        **attributes,
    )
    return lambda command: servers(command_config_option(command))


def _bootstrap_servers(context: click.Context, parameter: click.Parameter, given: str | None) -> str | None:
    from kafka_zk.clients.connection.config import format_bootstrap_servers, parse_bootstrap_servers
    from kafka_zk.clients.connection.errors import ConfigError

    if given is None:
        return None
    try:
        return format_bootstrap_servers(parse_bootstrap_servers(given, command_security().protocol))
    except ConfigError as error:
        raise click.BadParameter(str(error).removeprefix("bootstrap.servers: ")) from None


bootstrap_option: Decorator = bootstrap_servers_option(
    "Brokers to ask first.",
    envvar=BOOTSTRAP_VARIABLE,
    show_envvar=True,
    default=DEFAULT_BOOTSTRAP,
    show_default=True,
)


def groups_option(help_text: str) -> Decorator:
    """Any number of groups, as the parameter ``wanted``."""
    return click.option("--group", "wanted", multiple=True, callback=_all_groups, help=help_text)


def _one_group(context: click.Context, parameter: click.Parameter, group: str) -> str:
    from kafka_zk.registry.znodes.consumers import is_znode_name

    if not is_znode_name(group):
        raise click.BadParameter(f"{group!r} is not a valid name for a ZooKeeper group")
    return group


group_option: Decorator = click.option("--group", required=True, callback=_one_group)
"""``--group`` of a command for groups in ZooKeeper, including names that no consumer could use."""


def _all_groups(context: click.Context, parameter: click.Parameter, groups: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_one_group(context, parameter, group) for group in groups)


def zookeeper_option(help_text: str, envvar: str | None = None) -> Decorator:
    """``envvar``: the environment variable with the default, only where it does not change the command's meaning.

    The decorator also adds ``--zk-tls-config-file``, which ``zookeeper_properties`` reads.
    """
    servers = click.option(
        "--zookeeper", metavar="HOST:PORT[,...][/CHROOT]", envvar=envvar, show_envvar=True, help=help_text
    )
    return lambda command: servers(zk_tls_config_option(command))


def zk_tls_config_option(command: Callable[..., Any]) -> Callable[..., Any]:
    secured = click.option(
        "--zk-tls-config-file",
        type=click.Path(path_type=Path, dir_okay=False),
        envvar="KAFKA_ZK_TLS_CONFIG_FILE",
        expose_value=False,
        callback=_remember_tls_config,
        help="Properties file for a secure connection to ZooKeeper: zookeeper.ssl.client.enable=true and so on.",
    )
    return secured(command)


def zookeeper_properties() -> dict[str, str]:
    """The keys in the current command's ``--zk-tls-config-file``; empty if the option is not given. Raises
    CommandFailed."""
    from kafka_zk.cli.terminal.properties import read_properties

    context = click.get_current_context(silent=True)
    path = context.meta.get(_TLS_CONFIG) if context else None
    return read_properties(path) if path else {}


_TLS_CONFIG = "kafka_zk.zk_tls_config_file"


def _remember_tls_config(context: click.Context, parameter: click.Parameter, path: Path | None) -> None:
    context.meta[_TLS_CONFIG] = path
