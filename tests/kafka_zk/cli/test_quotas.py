"""``kafka-zk quotas``: its requests to brokers, and its output."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from click.testing import CliRunner

from kafka_zk.cli import quotas
from kafka_zk.cli.terminal import brokers

Entity = dict[str, str | None]


class Admin:
    """Brokers that have quotas."""

    def __init__(self) -> None:
        self.found: list[tuple[Entity, dict[str, float]]] = []
        self.changes: list[tuple[Entity, dict[str, float | None]]] = []

    def describe_client_quotas(self) -> list[tuple[Entity, dict[str, float]]]:
        return self.found

    def alter_client_quotas(self, entity: Entity, changes: Mapping[str, float | None]) -> None:
        self.changes.append((entity, dict(changes)))


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Admin:
    made = Admin()

    @contextlib.contextmanager
    def broker_admin(bootstrap: str) -> Iterator[Admin]:
        yield made

    monkeypatch.setattr(brokers, "broker_admin", broker_admin)
    return made


def run(*arguments: str) -> Any:
    return CliRunner().invoke(quotas.command, arguments)


def test_quotas_are_in_one_place_only(admin: Admin) -> None:
    """--bootstrap-server and --zookeeper together are refused, as for topics, ACLs and users.
    """
    result = run("list", "--bootstrap-server", "b:1", "--zookeeper", "z:1")
    assert result.exit_code == 2 and "give --bootstrap-server or --zookeeper, not both" in result.output


def shown(*arguments: str) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


@pytest.mark.parametrize(
    ("options", "entity"),
    [
        (["--user", "a"], {"user": "a"}),
        (["--default-user", "--client-id", "c"], {"user": None, "client-id": "c"}),
        (["--default-client"], {"client-id": None}),
        (["--ip", "10.0.0.1"], {"ip": "10.0.0.1"}),
        (["--default-ip"], {"ip": None}),
    ],
)
def test_set_names_one_entity(admin: Admin, options: list[str], entity: Entity) -> None:
    assert run("set", *options, "x=5", "y=0.5").exit_code == 0
    assert admin.changes == [(entity, {"x": 5, "y": 0.5})]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["set", "x=5"], "Whose quotas?"),
        (["set", "--user", "a", "--default-user", "x=5"], "give one of them"),
        (["set", "--user", "a", "x"], "it must be KEY=NUMBER"),
        (["set", "--user", "a", "x=many"], "it must be KEY=NUMBER"),
    ],
)
def test_what_cannot_be_understood_changes_nothing(admin: Admin, arguments: list[str], sentence: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2 and sentence in result.output
    assert admin.changes == []


def test_remove_takes_what_is_there(admin: Admin) -> None:
    admin.found = [({"user": "a"}, {"x": 1.0, "y": 2.0})]
    assert run("remove", "--user", "a").exit_code == 0
    assert run("remove", "--user", "a", "y").exit_code == 0
    assert admin.changes == [({"user": "a"}, {"x": None, "y": None}), ({"user": "a"}, {"y": None})]
    for arguments in (["--user", "a", "z"], ["--user", "b"]):
        result = run("remove", *arguments)
        assert result.exit_code == 1 and "there is no such quota" in result.output
    assert len(admin.changes) == 2


def test_list_shows_each_quota(admin: Admin) -> None:
    admin.found = [({"user": "a", "client-id": None}, {"x": 1.0, "y": 2.0}), ({"ip": None}, {"z": 3.0})]
    rows = [tuple(row.values()) for row in shown("list")]
    assert rows == [
        (None, None, "<default>", "z", 3.0),
        ("a", "<default>", None, "x", 1.0),
        ("a", "<default>", None, "y", 2.0),
    ]


def test_explain_says_which_quota_holds_and_why(admin: Admin) -> None:
    admin.found = [
        ({"user": "a"}, {"producer_byte_rate": 1.0, "consumer_byte_rate": 2.0}),
        ({"user": None, "client-id": "c"}, {"producer_byte_rate": 3.0}),
        ({"client-id": None}, {"request_percentage": 4.0}),
        ({"ip": None}, {"connection_creation_rate": 5.0}),
    ]
    rows = {row["quota"]: row for row in shown("explain", "--user", "a", "--client-id", "c")}
    assert rows["producer_byte_rate"] == {
        "quota": "producer_byte_rate", "value": 1.0, "set-at": "/config/users/a",
        "shared-by": "all client ids of the user",
    }  # fmt: skip
    assert rows["request_percentage"]["set-at"] == "/config/clients/<default>"
    assert rows["request_percentage"]["shared-by"] == "all users of the client id"
    assert rows["controller_mutation_rate"]["value"] is None
    (pair, *_) = shown("explain", "--client-id", "c")
    assert (pair["set-at"], pair["shared-by"]) == ("/config/users/<default>/clients/c", "nobody")


def test_what_a_znode_has_that_is_no_number_is_told_and_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    class Configs:
        async def entity_names(self, entity_type: str) -> list[str]:
            return ["a"] if entity_type == "users" else []

        async def names_of_clients_of_users(self) -> list[str]:
            return []

        async def entities(self, entity_type: str, names: list[str]) -> dict[str, dict[str, str]]:
            properties = {"producer_byte_rate": "many", "request_percentage": "NaN",
                          "consumer_byte_rate": str(2**63 - 1)}  # fmt: skip
            return dict.fromkeys(names, properties)

    configs: Any = Configs()
    assert quotas._ZooKeeper(configs).all() == [({"user": "a"}, {"consumer_byte_rate": float(2**63)})]
    told = capsys.readouterr().err
    assert "/config/users/a: producer_byte_rate=many is not a number and has no effect" in told
    assert "/config/users/a: request_percentage=NaN" in told
