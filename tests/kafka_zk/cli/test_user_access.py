"""SCRAM users in ZooKeeper: what is written, and how znodes of other tools are read."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kafka_zk.cli.user_access import ZooKeeperUsers
from kafka_zk.security import scram
from kafka_zk.security.scram import SaltedPassword, ScramLogin

SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
QUOTA = {"producer_byte_rate": "1024"}


class Configs:
    """The configurations of users, by encoded name."""

    def __init__(self) -> None:
        self.users: dict[str, dict[str, str]] = {}

    async def entity_names(self, entity_type: str) -> list[str]:
        assert entity_type == "users"
        return sorted(self.users)

    async def entities(self, entity_type: str, names: list[str]) -> dict[str, dict[str, str]]:
        return {name: self.users[name] for name in names}

    async def update_entity(
        self,
        entity_type: str,
        name: str,
        change: Callable[[Mapping[str, str]], Mapping[str, str]],
        *,
        removes_empty: bool,
    ) -> None:
        assert entity_type == "users" and removes_empty
        changed = dict(change(self.users.pop(name, {})))
        if changed:
            self.users[name] = changed


@pytest.fixture
def configs() -> Configs:
    return Configs()


@pytest.fixture
def users(configs: Configs) -> ZooKeeperUsers:
    given: Any = configs
    return ZooKeeperUsers(given)


def password(mechanism: str, iterations: int = 4096) -> SaltedPassword:
    return SaltedPassword(mechanism, scram.salted_password(mechanism, "pw", b"salt", iterations), b"salt", iterations)


def test_a_user_is_written_as_brokers_read_it(configs: Configs, users: ZooKeeperUsers) -> None:
    configs.users = {"a%20b": dict(QUOTA)}
    users.set("a b", password(SHA_256))
    users.set("a b", password(SHA_512, 8192))
    stored = configs.users["a%20b"]
    assert stored.items() >= QUOTA.items()
    assert scram.decode_credential(stored[SHA_256]) == password(SHA_256).credential
    assert users.all() == [ScramLogin("a b", SHA_256, 4096), ScramLogin("a b", SHA_512, 8192)]


def test_a_removed_user_keeps_their_quotas(configs: Configs, users: ZooKeeperUsers) -> None:
    configs.users = {"a": dict(QUOTA)}
    for user in ("a", "b"):
        users.set(user, password(SHA_256))
        users.set(user, password(SHA_512))
        users.remove(user, [SHA_256])
        assert [each.mechanism for each in users.all() if each.user == user] == [SHA_512]
        users.remove(user, [SHA_512])
    assert configs.users == {"a": QUOTA}


def test_an_invalid_credential_is_shown_without_its_text(
    configs: Configs, users: ZooKeeperUsers, capsys: pytest.CaptureFixture[str]
) -> None:
    configs.users = {"a": {SHA_512: "stored_key=c2VjcmV0"}, "<default>": {SHA_512: "ignored"}, "b": dict(QUOTA)}
    assert users.all() == [ScramLogin("a", SHA_512, None)]
    shown = capsys.readouterr().err
    assert shown.startswith("/config/users/a: SCRAM-SHA-512: not a SCRAM credential") and "c2VjcmV0" not in shown
