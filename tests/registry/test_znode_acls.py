"""Existing znodes get Kafka's ACLs or are opened again. Also, which znodes are visited, and in which order."""

from collections.abc import Mapping

import pytest

from kafka_zk.registry import znode_acls
from kafka_zk.registry.client.client import Create
from kafka_zk.registry.client.errors import NoAuth
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.client.pipeline import READS_AT_ONCE, ensure_paths
from kafka_zk.registry.client.security_keys import DIGEST, SET_ACL, zookeeper_security
from kafka_zk.testing.zookeeper import Chroot
from tests.integration.brokers.acls import ALL, OPEN, READ, Acl
from tests.integration.brokers.acls import znode_acls as acls_of
from tests.registry.world import World

ZNODES = (
    "/admin/delete_topics", "/brokers/ids/0", "/brokers/topics/t/partitions/0/state", "/config/users/alice",
    "/config/topics/t", "/consumers/g/offsets", "/controller_epoch", "/delegation_token/tokens/x", "/kafka-acl/Topic/t",
    "/kafka-zk/secret", "/somebody-else",
)  # fmt: skip
SECRET = ("/config/users", "/delegation_token/tokens", "/kafka-zk/secret")
LEFT_ALONE = ("/consumers", "/somebody-else")


def client_of(zookeeper: Chroot, set_acl: bool, user: str = "kafka") -> KazooBlockingClient:
    security = zookeeper_security({DIGEST: f"{user}:secret", SET_ACL: str(set_acl)})
    return KazooBlockingClient(zookeeper.connect_string, 10_000, security=security)


def acls(zookeeper: Chroot) -> Mapping[str, Acl]:
    return acls_of(zookeeper.connect_string, {DIGEST: "kafka:secret"})


@pytest.mark.integration
def test_existing_znodes_are_secured_and_opened_again(zookeeper: Chroot) -> None:
    with client_of(zookeeper, set_acl=False) as opening, client_of(zookeeper, set_acl=True) as securing:
        run_blocking(ensure_paths(opening, ZNODES))
        before = acls(zookeeper)
        count = run_blocking(znode_acls.reset_acls(securing))
        after = acls(zookeeper)
        assert after.keys() == before.keys()  # in particular, no /migration: KAFKA-19480
        [owner] = {entry for entry in after["/brokers"] if entry[0] == "digest"}
        assert owner[2] == ALL
        for path, acl in after.items():
            if path.startswith(LEFT_ALONE):
                assert acl == OPEN, path
            else:
                assert acl == {owner} | (set() if path.startswith(SECRET) else {("world", "anyone", READ)}), path
        assert count == sum(not path.startswith(LEFT_ALONE) for path in after)
        stranger = client_of(zookeeper, set_acl=False, user="stranger")
        with stranger, pytest.raises(NoAuth, match=r"^/: its ACL"):
            run_blocking(znode_acls.reset_acls(stranger))
        assert run_blocking(znode_acls.reset_acls(opening)) == count
        assert set(acls(zookeeper).values()) == {OPEN}


def test_a_chroot_without_a_cluster_is_noticed() -> None:
    world = World()
    client = world.clients[0]

    async def missing() -> tuple[list[str], list[str]]:
        before = await znode_acls.missing_roots(client)
        await client.delete("/admin/delete_topics")
        await client.delete("/admin")
        return before, await znode_acls.missing_roots(client)

    assert world.scheduler.run(missing()) == ([], ["/admin"])


def test_many_znodes_are_walked_in_bounded_lists_and_those_made_meanwhile_too() -> None:
    world = World()
    client = world.clients[0]
    names = [f"/config/topics/t{number}" for number in range(2 * READS_AT_ONCE)]

    async def walk() -> list[list[str]]:
        for start in range(0, len(names), 100):
            await client.multi([Create(name) for name in names[start : start + 100]])
        walked = []
        async for paths in znode_acls.kafka_znodes(client):
            walked.append(paths)
            if "/config/topics" in paths:
                await client.create("/config/topics/late")
        return walked

    walked = world.scheduler.run(walk())
    assert max(map(len, walked)) == READS_AT_ONCE
    assert walked[0] == ["/"]
    order = [path for paths in walked for path in paths]
    assert len(order) == len(set(order)) and {*names, "/config/topics/late"} < set(order)
    assert all(order.index(path.rpartition("/")[0] or "/") < order.index(path) for path in order[1:])
