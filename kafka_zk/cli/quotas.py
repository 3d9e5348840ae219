"""``kafka-zk quotas``: limits for users, client ids and addresses, through brokers or directly in ZooKeeper."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import wraps
from typing import TYPE_CHECKING, Any, Protocol

import click

from kafka_zk.cli.terminal.access import open_access
from kafka_zk.cli.terminal.command_group import CommandGroup
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.options import bootstrap_option, json_option, zookeeper_option
from kafka_zk.cli.terminal.output import note, print_rows

if TYPE_CHECKING:
    from kafka_zk.registry.config import ConfigRegistry

COLUMNS = ("user", "client-id", "ip", "quota", "value")
EXPLAIN_COLUMNS = ("quota", "value", "set-at", "shared-by")
DEFAULT = "<default>"

Entity = dict[str, str | None]


class Access(Protocol):
    def all(self) -> list[tuple[Entity, dict[str, float]]]: ...
    def change(self, entity: Entity, changes: Mapping[str, float | None]) -> None: ...


@click.group("quotas", cls=CommandGroup, short_help="How much users and clients may use: list, set, remove, explain.")
def command() -> None:
    """Show and change quotas: of users, client ids, both together, and addresses.

    A quota limits the use of one broker: producer_byte_rate and consumer_byte_rate in bytes a second,
    request_percentage in percent of one thread's time, controller_mutation_rate in partitions created or deleted a
    second; for an address connection_creation_rate in connections a second. A client above its quota is throttled: it
    gets its response immediately, and then the broker does not read from its connection for a while.

    \b
    kafka-zk quotas set --user alice producer_byte_rate=1048576
    kafka-zk quotas set --default-user --default-client request_percentage=50
    kafka-zk quotas explain --user alice --client-id app
    kafka-zk quotas list
    kafka-zk quotas remove --user alice producer_byte_rate
    """


def _where(function: Callable[..., Any]) -> Callable[..., Any]:
    @bootstrap_option
    @zookeeper_option("Read and write the quotas in ZooKeeper, without a broker.")
    @json_option
    @wraps(function)
    def with_access(*arguments: Any, bootstrap: str, zookeeper: str | None, **options: Any) -> Any:
        with quota_access(bootstrap, zookeeper) as access:
            return function(*arguments, access=access, **options)

    return with_access


def quota_access(bootstrap: str, zookeeper: str | None) -> AbstractContextManager[Access]:
    """Raises the errors of ``open_access``."""
    return open_access(bootstrap, zookeeper, _Brokers, _in_zookeeper)


def _in_zookeeper(client: Any) -> Access:
    from kafka_zk.registry.config import ConfigRegistry

    return _ZooKeeper(ConfigRegistry(client))


def _entity_options(function: Callable[..., Any]) -> Callable[..., Any]:
    @click.option("--user", help="For this user; ANONYMOUS is a client without a login.")
    @click.option("--default-user", is_flag=True, help="For users without a quota of their own.")
    @click.option("--client-id", help="For clients with this id; with --user, only this user's.")
    @click.option("--default-client", is_flag=True, help="For client ids without a quota of their own.")
    @click.option("--ip", help="For this address.")
    @click.option("--default-ip", is_flag=True, help="For addresses without a quota of their own.")
    @wraps(function)
    def with_entity(
        *arguments: Any,
        user: str | None,
        default_user: bool,
        client_id: str | None,
        default_client: bool,
        ip: str | None,
        default_ip: bool,
        **options: Any,
    ) -> Any:
        entity: Entity = {}
        for kind, default, name, is_default in (
            ("user", "--default-user", user, default_user),
            ("client-id", "--default-client", client_id, default_client),
            ("ip", "--default-ip", ip, default_ip),
        ):
            if name is not None and is_default:
                raise click.UsageError(f"--{kind} and {default} cannot be combined: give one of them")
            if name is not None or is_default:
                entity[kind] = name
        if not entity:
            raise click.UsageError("Whose quotas? Name --user, --client-id, both of them, --ip, or a default.")
        return function(*arguments, entity=entity, **options)

    return with_entity


@command.command("list")
@_where
def list_quotas(access: Access, as_json: bool) -> None:
    """List all quotas."""
    print_rows(COLUMNS, rows_of(access.all()), as_json)


@command.command("set")
@_entity_options
@click.argument("quotas", nargs=-1, required=True, metavar="KEY=NUMBER...")
@_where
def set_quotas(entity: Entity, quotas: tuple[str, ...], access: Access, as_json: bool) -> None:
    """Set quotas. They apply from the next request on, and the traffic of the last seconds counts towards them.

    \b
    kafka-zk quotas set --user alice --client-id app consumer_byte_rate=65536
    kafka-zk quotas set --default-ip connection_creation_rate=50
    """
    access.change(entity, dict(map(_parsed, quotas)))
    if not as_json:
        note("Set; brokers apply it within a second.")


@command.command("remove")
@_entity_options
@click.argument("keys", nargs=-1, metavar="[KEY...]")
@_where
def remove_quotas(entity: Entity, keys: tuple[str, ...], access: Access, as_json: bool) -> None:
    """Remove the named quotas, or all quotas of the entity."""
    present = next((values for known, values in access.all() if known == entity), {})
    missing = [key for key in keys if key not in present]
    if missing or not present:
        raise CommandFailed(f"there is no such quota: {', '.join(missing) or 'the entity has no quotas'}")
    access.change(entity, dict.fromkeys(keys or present))
    if not as_json:
        note("Removed.")


@command.command("explain")
@click.option("--user", default="ANONYMOUS", show_default=True, help="The user that the client logs in as.")
@click.option("--client-id", default="", help="The client's id.")
@_where
def explain(user: str, client_id: str, access: Access, as_json: bool) -> None:
    """Show which quotas apply to a client, where each is set, and who shares it.

    For each kind of quota only the most specific one applies, in this order: user with client id, user, client id. A
    quota of a named entity comes before the default of its kind, and a user's before a client id's.
    """
    from kafka_zk.broker.quota.quota_entities import place_of
    from kafka_zk.broker.quota.quota_table import QuotaKey, QuotaTable

    table = QuotaTable()
    for entity, values in access.all():
        if "ip" not in entity:
            place = place_of(entity.items())
            table.set(place.entity_type, place.name, {key: str(value) for key, value in values.items()})
    rows = []
    for key in QuotaKey:
        match = table.find(key, user, client_id)
        rows.append(
            {
                "quota": key.value,
                "value": None if match is None else match.bound,
                "set-at": None if match is None else f"/config/{match.path}",
                "shared-by": None if match is None else _sharers(match.owner.user, match.owner.client),
            }
        )
    print_rows(EXPLAIN_COLUMNS, rows, as_json)


def rows_of(found: Iterable[tuple[Entity, Mapping[str, float]]]) -> list[dict[str, Any]]:
    return [
        {**{kind: _shown(entity, kind) for kind in COLUMNS[:3]}, "quota": key, "value": value}
        for entity, values in sorted(found, key=lambda each: str(each[0]))
        for key, value in sorted(values.items())
    ]


def _sharers(user: str, client: str) -> str:
    if user and client:
        return "nobody"
    return "all client ids of the user" if user else "all users of the client id"


def _shown(entity: Entity, kind: str) -> str | None:
    return entity[kind] or DEFAULT if kind in entity else None


def _parsed(text: str) -> tuple[str, float]:
    key, _, number = text.partition("=")
    try:
        return key.strip(), float(number)
    except ValueError:
        raise click.BadParameter(f"{text}: it must be KEY=NUMBER, for example producer_byte_rate=1048576") from None


class _Brokers:
    def __init__(self, admin: Any) -> None:
        self._admin = admin

    def all(self) -> list[tuple[Entity, dict[str, float]]]:
        found: list[tuple[Entity, dict[str, float]]] = self._admin.describe_client_quotas()
        return found

    def change(self, entity: Entity, changes: Mapping[str, float | None]) -> None:
        self._admin.alter_client_quotas(entity, changes)


class _ZooKeeper:
    def __init__(self, configs: "ConfigRegistry") -> None:
        self._configs = configs

    def all(self) -> list[tuple[Entity, dict[str, float]]]:
        from kafka_zk.registry.client.kazoo_blocking import run_blocking

        return run_blocking(self._all())

    async def _all(self) -> list[tuple[Entity, dict[str, float]]]:
        from kafka_zk.broker.quota.quota_entities import Place, entity_at, values_of

        found = []
        for entity_type in ("users", "clients", "ips"):
            names = await self._configs.entity_names(entity_type)
            if entity_type == "users":
                names = names + await self._configs.names_of_clients_of_users()
            for name, properties in (await self._configs.entities(entity_type, names)).items():
                place = Place(entity_type, name)
                values = values_of(place, properties)
                for key in place.keys:
                    if key in properties and key not in values:
                        note(f"/config/{entity_type}/{name}: {key}={properties[key]} is not a number and has no effect")
                if values:
                    found.append((entity_at(place), values))
        return found

    def change(self, entity: Entity, changes: Mapping[str, float | None]) -> None:
        from kafka_zk.broker.quota.quota_entities import changed, place_of, value_text
        from kafka_zk.protocol.errors import ApiError
        from kafka_zk.registry.client.kazoo_blocking import run_blocking

        try:
            place = place_of(entity.items())
            texts = {key: None if value is None else value_text(place, key, value) for key, value in changes.items()}
        except ApiError as error:
            raise CommandFailed(error.message or str(error)) from None
        run_blocking(
            self._configs.update_entity(
                place.entity_type, place.name, lambda present: changed(present, texts), removes_empty=True
            )
        )
