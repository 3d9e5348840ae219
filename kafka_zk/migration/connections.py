"""Finds out which ZooKeeper clients belong to the cluster. The four-letter word ``cons`` lists a server's connections.

     /10.0.0.7:53342[1](queued=0,recved=88,sent=88,sid=0x100003a5f,lop=PING,est=1795737658262,to=18000,…)

The connection that sends ``cons`` has no session. Source: NIOServerCnxn.java, NettyServerCnxn.java@3.8.4.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kafka_zk.migration.facts import Examples
from kafka_zk.migration.znode_reads import below
from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.client.errors import NoAuth
from kafka_zk.registry.client.pipeline import read_all
from kafka_zk.registry.znodes import brokers, consumers

_LINE = re.compile(r"^\s*/\[?([0-9a-fA-F:.%]+?)\]?:[0-9]+\[[0-9]+\]\(.*\bsid=0x([0-9a-fA-F]{1,16})\b")
_SESSION_BITS = 0xFFFF_FFFF_FFFF_FFFF  # session ids are shown as unsigned numbers


class Connected(NamedTuple):
    """A client: its IP address as ZooKeeper writes it, and its session id."""

    address: str
    session_id: int


class Owners(NamedTuple):
    """``brokers``: session ids of brokers. ``members``: session id of each group member -> group."""

    brokers: frozenset[int]
    members: Mapping[int, str]


def parse(answer: str) -> Iterator[Connected]:
    for line in answer.splitlines():
        if (found := _LINE.match(line)) is not None:
            yield Connected(found[1], int(found[2], 16))


async def read_owners(client: RegistryClient) -> Owners:
    """The sessions that own ephemeral znodes, except hidden znodes. Raises NoAuth for hidden parents."""
    ids = await below(client, brokers.BROKER_IDS)
    owners = await _owners(client, ids)
    members = {}
    for group in await below(client, consumers.CONSUMERS):
        for owner in await _owners(client, await below(client, f"{group}/ids")):
            members[owner] = group.rpartition("/")[2]
    return Owners(frozenset(owners), members)


async def _owners(client: RegistryClient, paths: list[str]) -> list[int]:
    answers = await read_all(client, paths)
    return [
        answer[1].ephemeral_owner & _SESSION_BITS
        for answer in answers if answer is not None and not isinstance(answer, NoAuth)
    ]  # fmt: skip


def strangers(
    connected: Iterable[Connected], owners: Owners, own_session: int | None, controllers: Iterable[str]
) -> Examples:
    """The addresses of clients that are neither brokers nor controllers nor this command; a consumer's address comes
    with its groups. A tool that connects from the address of a broker or controller counts as that node, unless it is a
    group member. ``controllers``: their IP addresses.
    """
    clients = list(connected)
    own = None if own_session is None else own_session & _SESSION_BITS
    known = {*controllers, *(each.address for each in clients if each.session_id in owners.brokers)}
    counts: Counter[str] = Counter()
    groups: dict[str, set[str]] = {}
    for each in clients:
        is_ours = each.session_id in owners.brokers or each.session_id == own
        if each.session_id in owners.members:
            groups.setdefault(each.address, set()).add(owners.members[each.session_id])
        elif is_ours or each.address in known:
            continue
        counts[each.address] += 1
    return Examples.of(_named(address, counts[address], groups.get(address, ())) for address in sorted(counts))


def _named(address: str, count: int, groups: Iterable[str]) -> str:
    members = ", ".join(sorted(groups))
    return f"{address} ({count} connection{'s' * (count > 1)}{f', group {members}' if members else ''})"
