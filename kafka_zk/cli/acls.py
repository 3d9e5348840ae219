"""``kafka-zk acls``: list, add, remove, explain."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from kafka_zk.cli.acl_access import Found, acl_access
from kafka_zk.cli.terminal.command_group import CommandGroup
from kafka_zk.cli.terminal.options import bootstrap_option, json_option, zookeeper_option
from kafka_zk.cli.terminal.output import note, print_json, print_table, say
from kafka_zk.security import acl as vocabulary
from kafka_zk.security.acl import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    AclFilter,
    InvalidAcl,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)

COLUMNS = ("resource", "name", "pattern", "permission", "principal", "operation", "host")


@click.group("acls", cls=CommandGroup, short_help="Who may do what: list, add, remove and explain ACLs.")
def command() -> None:
    """Manage who may do what in a cluster whose brokers have Kafka's AclAuthorizer, through a broker or (with
    --zookeeper) directly in ZooKeeper.

    \b
    kafka-zk acls add --topic t --allow-principal User:alice --operation read --operation describe
    kafka-zk acls add --topic pre- --prefixed --deny-principal User:bob --operation all
    kafka-zk acls list --principal User:alice
    kafka-zk acls explain --topic t --principal User:alice --operation read
    """


class _OneOf(click.ParamType[Operation]):
    """An operation in any of Kafka's spellings: ClusterAction, clusteraction, cluster-action."""

    name = "operation"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Operation:
        found = vocabulary.named(Operation, str(value).replace("-", "").replace("_", ""))
        if found is None or found is Operation.ANY:
            allowed = ", ".join(each.label for each in Operation if each is not Operation.ANY)
            self.fail(f"{value!r} is not one of {allowed}", param, ctx)
        return found


_OPERATION = _OneOf()


def where(function: Callable[..., Any]) -> Callable[..., Any]:
    return bootstrap_option(zookeeper_option("Ask ZooKeeper instead of a broker.")(json_option(function)))


def resource_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option, help_text in (
        ("--user-principal", "A user for whom tokens may be created."),
        ("--delegation-token", "The id of a delegation token."),
        ("--transactional-id", None),
        ("--group", None),
        ("--topic", "* for all topics."),
    ):
        function = click.option(option, help=help_text)(function)
    return click.option("--cluster", is_flag=True, help="The cluster itself.")(function)


@command.command("list")
@resource_options
@click.option("--principal", help="User:alice, for example.")
@where
def list_acls(bootstrap: str, zookeeper: str | None, as_json: bool, principal: str | None, **named: Any) -> None:
    """List all ACLs, or those that apply to a resource: by its name, by a prefix of it, or by *.

    With --zookeeper the list includes invalid ACLs, which deny everyone access to their resources.
    """
    resource = _resource(named, required=False)
    wanted = AclFilter(principal=principal)
    if resource is not None:
        wanted = wanted._replace(resource_type=resource[0], name=resource[1], pattern_type=PatternType.MATCH)
    with acl_access(bootstrap, zookeeper) as acls:
        found, unknown = acls.find(wanted)
    _show(found, unknown, as_json=as_json)


@command.command("add")
@resource_options
@click.option("--prefixed", is_flag=True, help="For all resources whose names begin with this name.")
@click.option("--allow-principal", multiple=True, help="User:alice, or User:* for everyone. May be repeated.")
@click.option("--deny-principal", multiple=True, help="A denial overrides every permission.")
@click.option("--operation", "operations", type=_OPERATION, multiple=True, required=True, help="May be repeated.")
@click.option("--host", default=WILDCARD, show_default=True, help="The address of the client.")
@click.option("--replace-unreadable", is_flag=True, help="With --zookeeper: replace ACLs that cannot be parsed.")
@where
def add(
    bootstrap: str,
    zookeeper: str | None,
    as_json: bool,
    prefixed: bool,
    allow_principal: tuple[str, ...],
    deny_principal: tuple[str, ...],
    operations: tuple[Operation, ...],
    host: str,
    replace_unreadable: bool,
    **named: Any,
) -> None:
    """Allow or deny operations on a resource."""
    pattern = _pattern(named, prefixed)
    acls = _acls(allow_principal, deny_principal, operations, host)
    if not acls:
        raise click.UsageError("give --allow-principal or --deny-principal")
    for acl in acls:
        _check(pattern, acl)
    with acl_access(bootstrap, zookeeper) as known:
        known.add({pattern: frozenset(acls)}, replace_unknown=replace_unreadable)
    _show({pattern: sorted(acls)}, {}, as_json=as_json)


@command.command("remove")
@resource_options
@click.option("--prefixed", is_flag=True, help="Remove ACLs for all resources whose names begin with this name.")
@click.option("--principal", help="Remove only the ACLs of this principal.")
@click.option("--operation", type=_OPERATION, help="Remove only the ACLs for this operation.")
@where
def remove(
    bootstrap: str,
    zookeeper: str | None,
    as_json: bool,
    prefixed: bool,
    principal: str | None,
    operation: Operation | None,
    **named: Any,
) -> None:
    """Remove ACLs of a resource, and show them."""
    pattern = _pattern(named, prefixed)
    wanted = AclFilter(*pattern, principal, None, operation or Operation.ANY)
    with acl_access(bootstrap, zookeeper) as acls:
        removed = acls.remove(wanted)
    _show(removed, {}, as_json=as_json)


@command.command("explain")
@resource_options
@click.option("--principal", required=True, help="User:alice, for example.")
@click.option("--operation", type=_OPERATION, required=True)
@click.option("--host", default=WILDCARD, show_default=True, help="The address of the client.")
@where
def explain(
    bootstrap: str, zookeeper: str | None, as_json: bool, principal: str, operation: Operation, host: str, **named: Any
) -> None:
    """Say whether a principal may do something, and which ACL decides. Brokers may also have super users, who may do
    everything, and allow.everyone.if.no.acl.found, which allows access to resources without ACLs."""
    from kafka_zk.broker.security.acl_rules import AclRules

    resource = _resource(named, required=True)
    assert resource is not None
    resource_type, name = resource
    with acl_access(bootstrap, zookeeper) as acls:
        found, unknown = acls.find(AclFilter(resource_type, name, PatternType.MATCH))
    rules = AclRules()
    for pattern, entries in found.items():
        rules.put(pattern, frozenset(entries))
    for pattern, why in unknown.items():
        rules.put(pattern, frozenset(), why)
    reason = rules.explain(principal, host, operation, resource_type, name)
    if as_json:
        by = None if reason.pattern is None or reason.acl is None else _row(reason.pattern, reason.acl)
        print_json({"allowed": reason.is_allowed, "reason": reason.text, "by": by})
        return
    asked = f"May {principal} {operation.label} {resource_type.label} {name}"
    say(f"{asked}? {'Yes' if reason.is_allowed else 'No'}, {reason}.")


def _resource(named: Mapping[str, Any], *, required: bool) -> tuple[ResourceType, str] | None:
    given = [
        (resource_type, CLUSTER_NAME if resource_type is ResourceType.CLUSTER else name)
        for option, resource_type in (
            ("topic", ResourceType.TOPIC),
            ("group", ResourceType.GROUP),
            ("cluster", ResourceType.CLUSTER),
            ("transactional_id", ResourceType.TRANSACTIONAL_ID),
            ("delegation_token", ResourceType.DELEGATION_TOKEN),
            ("user_principal", ResourceType.USER),
        )
        if (name := named[option])
    ]
    if len(given) > 1 or (required and not given):
        raise click.UsageError(
            "name one resource: --topic, --group, --cluster, --transactional-id, --delegation-token or --user-principal"
        )
    return given[0] if given else None


def _pattern(named: Mapping[str, Any], prefixed: bool) -> Pattern:
    resource = _resource(named, required=True)
    assert resource is not None
    return Pattern(*resource, PatternType.PREFIXED if prefixed else PatternType.LITERAL)


def _acls(allowed: Sequence[str], denied: Sequence[str], operations: Sequence[Operation], host: str) -> set[Acl]:
    return {
        Acl(principal, host, operation, permission)
        for principals, permission in ((allowed, Permission.ALLOW), (denied, Permission.DENY))
        for principal in principals
        for operation in operations
    }


def _check(pattern: Pattern, acl: Acl) -> None:
    try:
        vocabulary.check(pattern, acl)
    except InvalidAcl as error:
        raise click.UsageError(str(error)) from None


def _show(found: Found, unknown: Mapping[Pattern, str], *, as_json: bool) -> None:
    rows = rows_of(found)
    if as_json:
        unreadable = [{**_pattern_fields(pattern), "problem": why} for pattern, why in unknown.items()]
        print_json({"acls": rows, "unreadable": unreadable})
        return
    if rows:
        print_table(COLUMNS, rows)
    else:
        note("No ACLs.")
    for pattern, why in unknown.items():
        note(f"Denied to everyone, because its ACLs cannot be parsed: {pattern} ({why}). "
             "kafka-zk acls add --replace-unreadable replaces them.")  # fmt: skip


def rows_of(found: Found) -> list[dict[str, str]]:
    return [_row(pattern, acl) for pattern, acls in found.items() for acl in acls]


def _pattern_fields(pattern: Pattern) -> dict[str, str]:
    return {"resource": pattern.resource_type.label, "name": pattern.name, "pattern": pattern.pattern_type.name.lower()}


def _row(pattern: Pattern, acl: Acl) -> dict[str, str]:
    return {
        **_pattern_fields(pattern),
        "permission": acl.permission.label,
        "principal": acl.principal,
        "operation": acl.operation.label,
        "host": acl.host,
    }
