"""C: a znode hidden by another tool's ACL affects only its own topic, group or broker."""

import pytest
from kazoo.client import KazooClient
from kazoo.security import ACL, make_acl, make_digest_acl

from tests.attack import payloads
from tests.attack.cluster import PROBED_TOPIC, Victim, wait_for
from tests.attack.siege import Siege
from tests.integration.processes import kafka_zk

pytestmark = [pytest.mark.attack, pytest.mark.embedded]

OTHERS_ONLY = [make_digest_acl("other", "secret", all=True)]
SEES_AGAIN_WITHIN_S = 30.0


def anyone() -> list[ACL]:
    return [make_acl("world", "anyone", all=True)]


def hide(znodes: KazooClient, path: str) -> None:
    znodes.add_auth("digest", "other:secret")  # to restore it later
    znodes.set_acls(path, OTHERS_ONLY)


def elect_again(victim: Victim, znodes: KazooClient) -> None:
    """The new controller sends LeaderAndIsr for every partition."""
    znodes.delete("/controller")
    wait_for(lambda: znodes.exists("/controller"), "there is a controller again", 20.0)


def test_the_config_of_one_topic(siege: Siege, znodes: KazooClient) -> None:
    victim = siege.victim
    locked = victim.create_topic("locked", {"max.message.bytes": "1000"})
    path = f"/config/topics/{locked}"

    def attack() -> None:
        hide(znodes, path)
        elect_again(victim, znodes)
        victim.create_topic("beside-it")
        victim.produce("beside-it", payloads.batch(b"record"))
        victim.produce(PROBED_TOPIC, payloads.batch(b"record"))
        victim.produce(locked, payloads.batch(b"record"))  # with the configuration that was known before
        told = victim.logged(path)
        assert len(told) == 1, f"the log has {len(told)} lines: {told}"

    siege("C a topic's config hidden by an ACL", attack, deadline_s=60)


def test_the_config_of_one_topic_at_a_restart(siege: Siege, znodes: KazooClient) -> None:
    victim = siege.victim
    locked = victim.create_topic("locked", {"retention.ms": "-1"})
    victim.produce(locked, payloads.batch(b"kept"))
    hide(znodes, f"/config/topics/{locked}")

    def attack() -> None:
        victim.restart()
        wait_for(lambda: victim.records(PROBED_TOPIC) is not None, "other topics are served")
        victim.create_topic("beside-it")
        znodes.set_acls(f"/config/topics/{locked}", anyone())
        records = wait_for(lambda: victim.records(locked), "the topic is served again", SEES_AGAIN_WITHIN_S)
        assert b"kept" in records.values()

    siege("C the same at a restart", attack, deadline_s=60, waits=False)


def test_every_other_znode_that_is_read_with_many(siege: Siege, znodes: KazooClient) -> None:
    """The znode belongs to a topic, a partition's state, another broker, a change notification or a group."""
    victim = siege.victim
    for topic in ("no-znode", "no-state"):
        victim.create_topic(topic)
    for path in ("/consumers/hidden/ids", "/consumers/seen/ids", "/config/changes"):
        znodes.ensure_path(path)
    znodes.create("/brokers/ids/7", b"{}")
    znodes.create("/config/changes/config_change_", b"{}", sequence=True)
    hidden = [
        "/brokers/topics/no-znode",
        "/brokers/topics/no-state/partitions/0/state",
        "/brokers/ids/7",
        "/consumers/hidden",
        f"/config/changes/{znodes.get_children('/config/changes')[-1]}",
    ]

    def attack() -> None:
        for path in hidden:
            hide(znodes, path)
        elect_again(victim, znodes)
        victim.create_topic("beside-them", {"max.message.bytes": "1000"})
        victim.produce("beside-them", payloads.batch(b"record"))
        listed = kafka_zk("znodes", "/consumers", "--zookeeper", victim.zookeeper_connect)
        assert listed.returncode == 0, listed.stderr
        assert "seen" in listed.stdout and "does not let this client read it" in listed.stdout

    siege("C other znodes hidden by ACLs", attack, deadline_s=60)
