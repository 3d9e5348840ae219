"""``kafka-zk users``: its requests and its output; on a real cluster: test_user_commands.py."""

import contextlib
import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafka_zk.cli import quotas, users
from kafka_zk.cli.terminal import access
from kafka_zk.clients.connection.errors import broker_error
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.security import scram
from kafka_zk.security.acl import Acl, AclFilter, Operation, Pattern, PatternType, Permission, ResourceType
from kafka_zk.security.scram import SaltedPassword, ScramLogin

SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
ALICE = [ScramLogin("alice", SHA_256, 4096), ScramLogin("alice", SHA_512, 8192)]
TOPIC = Pattern(ResourceType.TOPIC, "t", PatternType.LITERAL)
READ = Acl("User:alice", "*", Operation.READ, Permission.ALLOW)


class Cluster:
    """Keeps users, quotas and ACLs in memory. ``acls``: None without an authorizer. ``places``: where users were looked
    up.
    """

    def __init__(self) -> None:
        self.users = list(ALICE)
        self.quotas: list[tuple[quotas.Entity, dict[str, float]]] = []
        self.acls: dict[Pattern, list[Acl]] | None = {}
        self.passwords: dict[str, SaltedPassword] = {}
        self.removed: list[tuple[str, list[str]]] = []
        self.places: list[str] = []

    def all(self) -> list[ScramLogin]:
        return self.users

    def set(self, user: str, password: SaltedPassword) -> None:
        self.passwords[user] = password

    def remove(self, user: str, mechanisms: Collection[str]) -> None:
        self.removed.append((user, list(mechanisms)))


class Quotas:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def all(self) -> list[tuple[quotas.Entity, dict[str, float]]]:
        return self.cluster.quotas


class Acls:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def find(self, wanted: AclFilter) -> Any:
        assert wanted == AclFilter(principal="User:alice") or not self.cluster.acls
        if self.cluster.acls is None:
            raise broker_error(ErrorCode.SECURITY_DISABLED, "listing ACLs")
        return self.cluster.acls, {}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()

    @contextlib.contextmanager
    def through(place: str, _: Any) -> Iterator[Cluster]:
        made.places.append(place)
        yield made

    @contextlib.contextmanager
    def quota_access(*_: Any) -> Iterator[Quotas]:
        yield Quotas(made)

    @contextlib.contextmanager
    def acl_access(*_: Any) -> Iterator[Acls]:
        yield Acls(made)

    monkeypatch.setattr(access, "through_broker", through)
    monkeypatch.setattr(access, "through_zookeeper", through)
    monkeypatch.setattr(quotas, "quota_access", quota_access)
    monkeypatch.setattr(users, "acl_access", acl_access)
    return made


def run(*arguments: str, code: int = 0, stdin: str = "") -> str:
    done = CliRunner().invoke(users.command, arguments, input=stdin)
    assert done.exit_code == code, done.output
    return done.output


def test_list_shows_each_mechanism(cluster: Cluster) -> None:
    assert json.loads(run("list", "--json")) == [login._asdict() for login in ALICE]
    assert [line.split() for line in run("list").splitlines()] == [
        ["USER", "MECHANISM", "ITERATIONS"], ["alice", SHA_256, "4096"], ["alice", SHA_512, "8192"],
    ]  # fmt: skip
    cluster.users = []
    assert run("list") == "No users.\n" and json.loads(run("list", "--json")) == []


def test_add_salts_the_password_of_stdin(cluster: Cluster) -> None:
    run("add", "bob", stdin="secret\n")
    kept = cluster.passwords["bob"]
    assert (kept.mechanism, kept.iterations) == (SHA_512, 8192)
    assert kept.salted == scram.salted_password(SHA_512, "secret", kept.salt, 8192)
    run("add", "carol", stdin="secret\n")
    assert cluster.passwords["carol"].salt != kept.salt


def test_add_takes_mechanism_iterations_and_a_file(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("secret")
    arguments = ("--mechanism", "scram-sha-256", "--iterations", "4096", "--password-file", str(file))
    shown = run("add", "bob", *arguments, "--zookeeper", "zk:2181", "--json")
    kept = cluster.passwords["bob"]
    assert kept.salted == scram.salted_password(SHA_256, "secret", kept.salt, 4096)
    assert json.loads(shown) == [{"user": "bob", "mechanism": SHA_256, "iterations": 4096}]
    assert cluster.places == ["zk:2181"]


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "sentence"),
    [
        (["bob"], "\n", 1, "the password is empty"),
        (["bob"], "", 1, "the password is empty"),
        (["bob"], "secret\nsecret\n", 1, "one line with the password is expected"),
        (["bob", "secret"], "", 2, "unexpected extra argument"),
        ([""], "secret\n", 2, "the user name must not be empty"),
        (["\udcff"], "secret\n", 2, "not text in UTF-8"),
        (["bob", "--iterations", "4095"], "secret\n", 2, "4096<=x<=16384"),
        (["bob", "--iterations", "16385"], "secret\n", 2, "4096<=x<=16384"),
        (["bob", "--mechanism", "PLAIN"], "secret\n", 2, "is not one of"),
        (["bob", "--bootstrap-server", "b:1", "--zookeeper", "z:1"], "secret\n", 2, "not both"),
    ],
)
def test_what_cannot_be_a_user_changes_nothing(
    cluster: Cluster, arguments: list[str], stdin: str, code: int, sentence: str
) -> None:
    assert sentence in run("add", *arguments, code=code, stdin=stdin)
    assert not cluster.passwords and not cluster.places


def test_remove_takes_all_mechanisms_or_one(cluster: Cluster) -> None:
    run("remove", "alice")
    assert json.loads(run("remove", "alice", "--mechanism", SHA_256, "--json")) == [ALICE[0]._asdict()]
    assert cluster.removed == [("alice", [SHA_256, SHA_512]), ("alice", [SHA_256])]


def test_a_user_that_does_not_exist_is_one_sentence(cluster: Cluster) -> None:
    for name in ("remove", "explain"):
        assert run(name, "alicia", code=1) == "Error: no user alicia; did you mean alice?\n"
    cluster.users = ALICE[1:]
    assert run("remove", "alice", "--mechanism", SHA_256, code=1) == f"Error: alice has no password for {SHA_256}\n"
    assert not cluster.removed


def test_explain_shows_logins_quotas_and_acls(cluster: Cluster) -> None:
    cluster.quotas = [
        ({"user": "alice", "client-id": "app"}, {"producer_byte_rate": 1024.0}),
        ({"user": "bob"}, {"producer_byte_rate": 1.0}),
        ({"user": None}, {"producer_byte_rate": 2.0}),
    ]
    cluster.acls = {TOPIC: [READ]}
    shown = json.loads(run("explain", "alice", "--json"))
    assert shown["mechanisms"] == [
        {"mechanism": SHA_256, "iterations": 4096}, {"mechanism": SHA_512, "iterations": 8192},
    ]  # fmt: skip
    assert [(row["user"], row["client-id"], row["value"]) for row in shown["quotas"]] == [("alice", "app", 1024.0)]
    assert [(row["name"], row["operation"]) for row in shown["acls"]] == [("t", "Read")]
    text = run("explain", "alice")
    assert f"alice can log in with {SHA_512} (8192 iterations)." in text
    assert "producer_byte_rate" in text and "Read" in text and "kafka-zk acls explain" in text


def test_explain_says_what_keeps_a_user_out(cluster: Cluster) -> None:
    cluster.users = [ScramLogin("alice", SHA_256, 100), ScramLogin("alice", SHA_512, None)]
    text = run("explain", "alice")
    assert f"alice cannot log in with {SHA_256}: 100 iterations are less than 4096." in text
    assert f"alice cannot log in with {SHA_512}: the stored credential cannot be parsed." in text
    assert "No quotas name alice." in text and "No ACLs name User:alice." in text


def test_explain_knows_users_of_other_logins_and_clusters_without_an_authorizer(cluster: Cluster) -> None:
    cluster.acls = None
    cluster.quotas = [({"user": "bob"}, {"producer_byte_rate": 1.0})]
    text = run("explain", "bob")
    assert "bob cannot log in with SCRAM" in text and "the brokers have no authorizer" in text
    assert json.loads(run("explain", "bob", "--json"))["acls"] is None
