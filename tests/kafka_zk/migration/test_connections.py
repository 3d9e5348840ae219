"""Which connections to ZooKeeper do not belong to the cluster. The lines are from ZooKeeper 3.8.4."""

from typing import Any, cast

from kafka_zk.migration.connections import Connected, Owners, parse, read_owners, strangers
from kafka_zk.migration.facts import Examples
from kafka_zk.registry import run_blocking
from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.client.errors import NoNode

CONS = """ /10.0.0.1:53342[1](queued=0,recved=88,sent=88,sid=0x100003a5f000001,lop=PING,est=1795737658262,to=18000,\
lcxid=0x51,lzxid=0x1f2,lresp=9,llat=0,minlat=0,avglat=0,maxlat=12)
 /0:0:0:0:0:0:0:1:40000[1](queued=0,recved=1,sent=1,sid=0xf00003a5f000002,lop=SESS,est=1,to=10000,lcxid=0x0)
 /[fe80::1]:40000[1](queued=0,recved=1,sent=1,sid=0x3,lop=SESS,est=1,to=10000)
 /127.0.0.1:41234[0](queued=0,recved=1,sent=0)

"""
BROKER, CONTROLLER, OURS, OTHER, MEMBER = 1, 2, 3, 4, 5
OWNERS = Owners(frozenset({BROKER}), {MEMBER: "readers"})


def listed(*connected: tuple[str, int]) -> Examples:
    clients = [Connected(*each) for each in connected]
    return strangers(clients, OWNERS, OURS, ["10.0.0.3"])


def test_the_lines_of_a_server() -> None:
    assert list(parse(CONS)) == [
        ("10.0.0.1", 0x100003A5F000001), ("0:0:0:0:0:0:0:1", 0xF00003A5F000002), ("fe80::1", 3)
    ]  # fmt: skip
    assert list(parse("This ZooKeeper instance is not currently serving requests\n")) == []


def test_brokers_controllers_and_this_command_are_no_strangers() -> None:
    assert listed(("10.0.0.1", BROKER), ("10.0.0.3", CONTROLLER), ("10.0.0.9", OURS)) == Examples()


def test_others_are_listed_by_address() -> None:
    found = listed(("10.0.0.1", BROKER), ("10.0.0.7", OTHER), ("10.0.0.7", 99), ("10.0.0.8", 98))
    assert found == Examples.of(["10.0.0.7 (2 connections)", "10.0.0.8 (1 connection)"])


def test_a_tool_at_a_brokers_address_cannot_be_told_from_it_but_a_consumer_can() -> None:
    found = listed(("10.0.0.1", BROKER), ("10.0.0.1", OTHER), ("10.0.0.1", MEMBER))
    assert found == Examples.of(["10.0.0.1 (1 connection, group readers)"])


def test_a_session_id_has_no_sign() -> None:
    found = strangers([Connected("h", 2**64 - 5)], OWNERS, -5, [])
    assert found == Examples()


CHILDREN = {"/brokers/ids": ["1"], "/consumers": ["readers", "empty"], "/consumers/readers/ids": ["readers_h-1"]}
OWNER = {"/brokers/ids/1": -7, "/consumers/readers/ids/readers_h-1": 9}


class Tree:
    """Names below each path, and the owner of each znode."""

    async def children(self, path: str) -> Any:
        if path not in CHILDREN:
            raise NoNode(path)
        return CHILDREN[path], None

    async def get(self, path: str) -> Any:
        return b"", _Stat(OWNER[path])

    async def get_all(self, paths: list[str]) -> Any:
        return [await self.get(path) for path in paths]


class _Stat:
    def __init__(self, ephemeral_owner: int) -> None:
        self.ephemeral_owner = ephemeral_owner


def test_the_owners_of_ephemeral_znodes() -> None:
    owners = run_blocking(read_owners(cast(RegistryClient, Tree())))
    assert owners == Owners(frozenset({2**64 - 7}), {9: "readers"})
