"""``kafka-zk zookeeper-security-migration``: its effect on a real ZooKeeper, and what it refuses."""

import json
from pathlib import Path

import pytest

from kafka_zk.cli.main import run
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.client.pipeline import ensure_paths
from kafka_zk.registry.client.security_keys import DIGEST
from kafka_zk.testing.zookeeper import Chroot
from tests.integration.brokers.acls import ALL, OPEN, READ, znode_acls

COMMAND = "zookeeper-security-migration"


IDENTITY = {DIGEST: "kafka:secret"}


@pytest.fixture
def options(zookeeper: Chroot, tmp_path: Path) -> list[str]:
    """The options for the address and the identity; ZooKeeper has a cluster's znodes."""
    with KazooBlockingClient(zookeeper.connect_string, 10_000) as client:
        run_blocking(ensure_paths(client, ["/admin", "/brokers/topics/t", "/config/users"]))
    config = tmp_path / "zk.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in IDENTITY.items()))
    return ["--zookeeper.connect", zookeeper.connect_string, "--zk-tls-config-file", str(config)]


@pytest.mark.integration
def test_a_cluster_is_secured_and_opened(
    zookeeper: Chroot, options: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    where = zookeeper.connect_string
    assert run([COMMAND, "--zookeeper.acl", "secure", *options, "--enable.path.check", "--dry-run"]) == 0
    shown = capfd.readouterr().out.splitlines()
    assert "/brokers/topics/t  the creator may do all, all others may read" in shown
    assert "/config/users  the creator may do all" in shown
    assert set(znode_acls(where, IDENTITY).values()) == {OPEN}

    assert run([COMMAND, "--zookeeper.acl=secure", *options, "--enable.path.check"]) == 0
    assert capfd.readouterr().out == f"{len(shown)} znodes are secure now.\n"
    found = znode_acls(where, IDENTITY)
    assert {entry[::2] for entry in found["/brokers/topics/t"]} == {("digest", ALL), ("world", READ)}
    assert {entry[::2] for entry in found["/config/users"]} == {("digest", ALL)}

    assert run([COMMAND, "--zookeeper.acl=unsecure", *options, "--json", "--dry-run"]) == 0
    told = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert len(told) == len(shown) and told[0] == {"path": "/", "acl": "world:anyone may do all"}
    assert run([COMMAND, "--zookeeper.acl=unsecure", *options, "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == {"acl": "unsecure", "znodes": len(shown)}
    assert set(znode_acls(where, IDENTITY).values()) == {OPEN}


@pytest.mark.integration
def test_what_looks_like_a_wrong_chroot_is_told_and_with_the_check_refused(
    zookeeper: Chroot, options: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    options[1] = f"{options[1]}/brokers"
    assert run([COMMAND, "--zookeeper.acl", "secure", *options, "--enable.path.check"]) == 1
    said = " ".join(capfd.readouterr().err.split())
    assert "has no /admin, /brokers, /config: is the chroot right? Nothing was changed." in said
    assert set(znode_acls(zookeeper.connect_string, IDENTITY).values()) == {OPEN}
    assert run([COMMAND, "--zookeeper.acl", "secure", *options]) == 0
    out, err = capfd.readouterr()
    assert "is the chroot right?" in " ".join(err.split()) and out == "1 znode is secure now.\n"
    options[1] = f"{options[1]}/nowhere"
    assert run([COMMAND, "--zookeeper.acl", "secure", *options]) == 1
    assert f"has no {zookeeper.path}/brokers/nowhere" in " ".join(capfd.readouterr().err.split())


def test_without_an_identity_nothing_is_tried(capfd: pytest.CaptureFixture[str]) -> None:
    """Znodes that belong to no identity could not be made accessible again."""
    for wanted in ("secure", "unsecure"):
        assert run([COMMAND, "--zookeeper.acl", wanted]) == 1
        said = " ".join(capfd.readouterr().err.split())
        assert "no identity for the znodes: give a file with --zk-tls-config-file" in said
