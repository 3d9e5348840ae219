"""A znode tree, read level by level, as indented lines."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from kafka_zk.base.integers import INT64
from kafka_zk.registry.client.client import RegistryClient, ZnodeStat
from kafka_zk.registry.client.errors import NoAuth, NoNode
from kafka_zk.registry.client.pipeline import found, readable
from kafka_zk.registry.znodes.json_codec import number_of
from kafka_zk.registry.znodes.secrets import masked

BROKER_IDS = "/brokers/ids/"
HIDDEN = "/zookeeper"  # ZooKeeper's own znodes
_UNKNOWN = ZnodeStat(*[0] * len(ZnodeStat._fields))
HIDDEN_BY_ACL = "(its ACL does not let this client read it)"


class Znode(NamedTuple):
    """``depth``: from the requested path. ``is_hidden``: an ACL hides data and children; ``stat`` is then unknown."""

    path: str
    depth: int
    data: bytes
    stat: ZnodeStat
    is_hidden: bool = False

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2] or "/"

    @property
    def text(self) -> str:
        """The data as text, or as ``0x…`` if they are not text."""
        if self.is_hidden:
            return HIDDEN_BY_ACL
        text = self.data.decode(errors="replace")
        return text if "\ufffd" not in text and text.isprintable() else f"0x{self.data.hex()}"


async def read_tree(
    client: RegistryClient, root: str = "/", max_depth: int | None = None, chroot: str = ""
) -> list[Znode]:
    """All znodes from ``root`` down, parents first, siblings by name (numbers by value), without secrets.

    ``chroot``: the connection's, because secrets are recognised by the whole path. Znodes that are deleted during the
    walk are left out; a znode that an ACL hides has neither data nor children.
    Raises: NoNode.
    """
    if await client.exists(root) is None:
        raise NoNode(f"no znode {root}")
    nodes: list[Znode] = []
    level = [root]
    depth = 0
    while level:
        contents = dict(zip(level, await readable([client.get(path) for path in level]), strict=True))
        nodes += [
            Znode(path, depth, b"", _UNKNOWN, is_hidden=True)
            for path, content in contents.items()
            if isinstance(content, NoAuth)
        ]
        present = {path: each for path, each in contents.items() if each is not None and not isinstance(each, NoAuth)}
        nodes += [
            Znode(path, depth, masked(chroot + path, data) or b"", stat) for path, (data, stat) in present.items()
        ]
        parents = [path for path, (_, stat) in present.items() if stat.num_children]
        if max_depth is not None and depth >= max_depth:
            break
        listed = await found([client.children(path) for path in parents])  # never NoAuth: READ covers data and children
        level = [
            f"{parent.rstrip('/')}/{name}"
            for parent, answer in zip(parents, listed, strict=True)
            for name in (answer[0] if answer else ())
        ]
        level = [path for path in level if path != HIDDEN]
        depth += 1
    return sorted(nodes, key=lambda node: _order(node.path))


def broker_sessions(nodes: list[Znode]) -> dict[int, str]:
    """Session id -> broker, from the registrations."""
    return {
        node.stat.ephemeral_owner: f"broker {node.name}"
        for node in nodes
        if BROKER_IDS in node.path and node.stat.ephemeral_owner
    }


def owner(node: Znode, sessions: dict[int, str]) -> str:
    """The owner, such as ``session 0x1… of broker 0``; empty for a persistent znode."""
    session_id = node.stat.ephemeral_owner
    if not session_id:
        return ""
    holder = sessions.get(session_id)
    return f"session {session_id:#x}" + (f" of {holder}" if holder else "")


def as_document(node: Znode) -> dict[str, Any]:
    """The znode for JSON, with ZooKeeper's field names. Session ids and zxids are longs, so they become hexadecimal
    text.

    If an ACL hides the znode, only its path is included.
    """
    if node.is_hidden:
        return {"path": node.path, "data": None, "hidden": True}
    stat = node.stat
    return {
        "path": node.path,
        "data": node.text,
        "ephemeralOwner": f"{stat.ephemeral_owner:#x}" if stat.ephemeral_owner else None,
        "version": stat.version,
        "cversion": stat.cversion,
        "numChildren": stat.num_children,
        "czxid": f"{stat.czxid:#x}",
        "mzxid": f"{stat.mzxid:#x}",
        "ctime": stat.ctime_ms,
        "mtime": stat.mtime_ms,
    }


def lines(nodes: list[Znode]) -> Iterator[tuple[str, str, str]]:
    """The indented name, the data and the owner of every znode."""
    sessions = broker_sessions(nodes)
    for node in nodes:
        name = node.path if node.depth == 0 else node.name
        yield "  " * node.depth + name, node.text, owner(node, sessions)


def _order(path: str) -> tuple[tuple[int, int, str], ...]:
    return tuple(_order_of(name) for name in path.split("/") if name)


def _order_of(name: str) -> tuple[int, int, str]:
    number = number_of(name, INT64)
    return (1, 0, name) if number is None else (0, number, "")
