"""``kafka-zk users``: SCRAM users, through brokers or directly in ZooKeeper."""

import secrets
import shlex
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TextIO

import click

from kafka_zk.cli import acls, quotas
from kafka_zk.cli.acl_access import acl_access
from kafka_zk.cli.terminal.command_group import CommandGroup
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.nearest import missing
from kafka_zk.cli.terminal.new_password import read_new_password
from kafka_zk.cli.terminal.options import bootstrap_option, json_option, zookeeper_option
from kafka_zk.cli.terminal.output import note, print_json, print_rows, print_table, say
from kafka_zk.cli.terminal.text_file import TEXT_FILE
from kafka_zk.cli.user_access import user_access
from kafka_zk.clients.connection.errors import BrokerError
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.security import scram
from kafka_zk.security.scram import SaltedPassword, ScramLogin

COLUMNS = ("user", "mechanism", "iterations")
DEFAULT_MECHANISM = "SCRAM-SHA-512"
DEFAULT_ITERATIONS = 8192

_MECHANISM: dict[str, Any] = {
    "type": click.Choice(sorted(scram.MECHANISMS), case_sensitive=False),
    "metavar": "|".join(sorted(scram.MECHANISMS)),
}


@click.group("users", cls=CommandGroup, short_help="SCRAM users: list, add, remove, explain.")
def command() -> None:
    """Manage the users that log in with a password by SCRAM, through brokers or (with --zookeeper) directly in
    ZooKeeper.

    Passwords are read from a prompt, from stdin or from a file, never from arguments, and are never shown. A user that
    brokers themselves log in as is added with --zookeeper, before the brokers start.

    \b
    kafka-zk users add broker --zookeeper zk:2181
    kafka-zk users add alice --password-file alice.password
    pwgen 24 1 | kafka-zk users add bob --mechanism SCRAM-SHA-256
    kafka-zk users list
    kafka-zk users explain alice
    kafka-zk users remove alice
    """


def where(function: Callable[..., Any]) -> Callable[..., Any]:
    return bootstrap_option(zookeeper_option("Read and write users in ZooKeeper instead.")(json_option(function)))


def user_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.argument("user", metavar="NAME", callback=_user_name)(function)


def _user_name(context: click.Context, parameter: click.Parameter, name: str) -> str:
    if not name:
        raise click.BadParameter("the user name must not be empty")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise click.BadParameter("it is not text in UTF-8") from None
    return name


@command.command("list")
@where
def list_users(bootstrap: str, zookeeper: str | None, as_json: bool) -> None:
    """List all users with their mechanisms.

    \b
    kafka-zk users list --json
    """
    with user_access(bootstrap, zookeeper) as users:
        found = users.all()
    if found or as_json:
        _show(found, as_json)
    else:
        note("No users.")


@command.command("add")
@user_argument
@click.option("--mechanism", **_MECHANISM, default=DEFAULT_MECHANISM, show_default=True)
@click.option(
    "--iterations",
    type=click.IntRange(scram.MIN_ITERATIONS, scram.MAX_ITERATIONS),
    default=DEFAULT_ITERATIONS,
    show_default=True,
    help="More iterations make a stolen credential harder to guess, and each login slower.",
)
@click.option("--password-file", type=TEXT_FILE, help="A file with the password as its only line.")
@where
def add(
    bootstrap: str,
    zookeeper: str | None,
    as_json: bool,
    user: str,
    mechanism: str,
    iterations: int,
    password_file: TextIO | None,
) -> None:
    """Add a user, or change the password of a user that exists.

    Without --password-file, a prompt on a terminal asks for the password, without showing it; otherwise it is the
    only line of stdin. A user has a password for each mechanism; only that of --mechanism changes. Open
    connections stay.

    \b
    kafka-zk users add alice
    kafka-zk users add alice --mechanism SCRAM-SHA-256 < alice.password
    kafka-zk users add broker --zookeeper zk:2181 --password-file broker.password
    """
    where_to = user_access(bootstrap, zookeeper)
    password = read_new_password(password_file)
    salt = scram.nonce_text(secrets.randbits(scram.NONCE_BITS)).encode()
    salted = scram.salted_password(mechanism, password.value, salt, iterations)
    with where_to as users:
        users.set(user, SaltedPassword(mechanism, salted, salt, iterations))
    if as_json:
        _show([ScramLogin(user, mechanism, iterations)], as_json)
    else:
        note(f"{user} can log in with {mechanism} ({iterations} iterations); brokers apply this within a second.")


@command.command("remove")
@user_argument
@click.option("--mechanism", **_MECHANISM, help="Only this mechanism. [default: all]")
@where
def remove(bootstrap: str, zookeeper: str | None, as_json: bool, user: str, mechanism: str | None) -> None:
    """Remove a user's credentials, of one mechanism or of all.

    Open connections stay until their session ends. Quotas and ACLs that name the user stay, too; explain shows them.

    \b
    kafka-zk users remove alice --mechanism SCRAM-SHA-256
    kafka-zk users remove alice
    """
    with user_access(bootstrap, zookeeper) as users:
        found = users.all()
        own = [each for each in found if each.user == user]
        if not own:
            raise CommandFailed(_no_user(user, found))
        removed = [each for each in own if mechanism in (None, each.mechanism)]
        if not removed:
            raise CommandFailed(f"{user} has no password for {mechanism}")
        users.remove(user, [each.mechanism for each in removed])
    if as_json:
        _show(removed, as_json)
    else:
        mechanisms = " and ".join(each.mechanism for each in removed)
        note(f"{user} can no longer log in with {mechanisms}; brokers apply this within a second.")


@command.command("explain")
@user_argument
@where
def explain(bootstrap: str, zookeeper: str | None, as_json: bool, user: str) -> None:
    """Show how a user can log in, and which quotas and ACLs name the user.

    \b
    kafka-zk users explain alice
    """
    with user_access(bootstrap, zookeeper) as users:
        found = users.all()
    with quotas.quota_access(bootstrap, zookeeper) as known_quotas:
        limits = quotas.rows_of(each for each in known_quotas.all() if each[0].get("user") == user)
    permissions = _permissions(bootstrap, zookeeper, user)
    own = [each for each in found if each.user == user]
    if not (own or limits or permissions):
        raise CommandFailed(_no_user(user, found))
    if as_json:
        mechanisms = [{"mechanism": each.mechanism, "iterations": each.iterations} for each in own]
        print_json({"user": user, "mechanisms": mechanisms, "quotas": limits, "acls": permissions})
        return
    _say_how(user, own)
    if limits:
        say(f"Quotas that name {user}:")
        print_table([column for column in quotas.COLUMNS if column != "ip"], limits)
    else:
        say(f"No quotas name {user}.")
    if permissions:
        say(f"ACLs that name User:{user}:")
        print_table(acls.COLUMNS, permissions)
    elif permissions is None:
        say("There are no ACLs, because the brokers have no authorizer.")
    else:
        say(f"No ACLs name User:{user}.")
    note(f"Defaults and ACLs for all users may apply, too: see kafka-zk quotas explain --user {shlex.quote(user)} and "
         f"kafka-zk acls explain --principal {shlex.quote(f'User:{user}')}.")  # fmt: skip


def _permissions(bootstrap: str, zookeeper: str | None, user: str) -> list[dict[str, str]] | None:
    from kafka_zk.security.acl import AclFilter

    try:
        with acl_access(bootstrap, zookeeper) as known_acls:
            return acls.rows_of(known_acls.find(AclFilter(principal=f"User:{user}"))[0])
    except BrokerError as error:
        if error.code != ErrorCode.SECURITY_DISABLED:
            raise
        return None


def _say_how(user: str, own: Sequence[ScramLogin]) -> None:
    for each in own:
        if each.iterations is None:
            say(f"{user} cannot log in with {each.mechanism}: the stored credential cannot be parsed.")
        elif each.iterations < scram.MIN_ITERATIONS:
            say(f"{user} cannot log in with {each.mechanism}: {each.iterations} iterations are less than "
                f"{scram.MIN_ITERATIONS}.")  # fmt: skip
        else:
            say(f"{user} can log in with {each.mechanism} ({each.iterations} iterations).")
    if not own:
        say(f"{user} cannot log in with SCRAM, but clients may log in under this name in another way, for example with "
            "PLAIN or a certificate.")  # fmt: skip


def _no_user(user: str, found: Iterable[ScramLogin]) -> str:
    return missing("user", user, {each.user for each in found})


def _show(logins: Iterable[ScramLogin], as_json: bool) -> None:
    print_rows(COLUMNS, [dict(zip(COLUMNS, each, strict=True)) for each in logins], as_json)
