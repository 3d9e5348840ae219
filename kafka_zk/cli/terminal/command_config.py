"""``--command-config FILE``, as in Kafka's tools: a client's ``.properties``.

Only security keys are used, in Java's or librdkafka's spelling (docs/how-to/security.md).
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from kafka_zk.security.client_security import ClientSecurity

VARIABLE = "KAFKA_ZK_COMMAND_CONFIG"
_SECURITY = "kafka_zk.command_config"
_KEYS = f"{__name__}.keys"


def _remember(context: click.Context, parameter: click.Parameter, path: Path | None) -> None:
    if path is not None:
        context.meta[_KEYS], context.meta[_SECURITY] = read_security(path)


def use_security(path: Path) -> None:
    """Use this client's file in the rest of the command, instead of ``--command-config``. Raises CommandFailed."""
    meta = click.get_current_context().meta
    meta[_KEYS], meta[_SECURITY] = read_security(path)


def read_security(path: Path) -> "tuple[dict[str, str], ClientSecurity]":
    """The security keys in a client's file, and the settings that they define. Raises CommandFailed."""
    from kafka_zk.cli.terminal.errors import CommandFailed
    from kafka_zk.cli.terminal.properties import read_properties
    from kafka_zk.security.client_keys import client_security, security_keys
    from kafka_zk.security.errors import InvalidSecurity

    try:
        keys = security_keys(read_properties(path))
        return keys, client_security(keys)
    except InvalidSecurity as error:
        raise CommandFailed(f"{path}: {error}") from None


# Eager, because the check of broker addresses needs the security protocol.
command_config_option = click.option(
    "--command-config",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar=VARIABLE,
    show_envvar=True,
    expose_value=False,
    is_eager=True,
    callback=_remember,
    help="Properties file for secured brokers: security.protocol=SASL_SSL and so on.",
)


def command_security() -> "ClientSecurity":
    """Call it on the command's own thread."""
    from kafka_zk.security.client_security import NO_SECURITY

    context = click.get_current_context(silent=True)
    return NO_SECURITY if context is None else context.meta.get(_SECURITY, NO_SECURITY)


def secured() -> dict[str, Any]:
    """The keyword argument ``security`` for a client; empty without ``--command-config``, so that the caller may give
    individual keys instead.
    """
    context = click.get_current_context(silent=True)
    return {"security": context.meta[_SECURITY]} if context is not None and _SECURITY in context.meta else {}


def security_properties() -> dict[str, str]:
    context = click.get_current_context(silent=True)
    return {} if context is None else dict(context.meta.get(_KEYS, {}))
