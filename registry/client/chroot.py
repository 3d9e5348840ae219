"""Paths with and without the connection string's chroot."""

from kafka_zk.registry.client.client import Check, Create, Delete, Operation, SetData


def check_path(path: str) -> None:
    """Raise ValueError for a path that ZooKeeper would reject; such a path is a bug in the caller."""
    if path == "/":
        return
    parts = path.split("/")
    if parts[0] or len(parts) < 2 or any(part in ("", ".", "..") for part in parts[1:]) or "\0" in path:
        raise ValueError(f"not a ZooKeeper path: {path!r}")
    path.encode()


class Chroot:
    """Translates between the client's paths and the server's."""

    __slots__ = ("prefix",)

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix

    def full(self, path: str) -> str:
        """Raises ValueError."""
        check_path(path)
        return path if not self.prefix else self.prefix if path == "/" else self.prefix + path

    def relative(self, full_path: str) -> str:
        return full_path[len(self.prefix) :] or "/"

    def operation(self, operation: Operation) -> Operation:
        """Raises ValueError."""
        path = self.full(operation.path)
        match operation:
            case Create(_, data, ephemeral, sequential):
                return Create(path, data, ephemeral, sequential)
            case SetData(_, data, version):
                return SetData(path, data, version)
            case Delete(_, version):
                return Delete(path, version)
            case Check(_, version):
                return Check(path, version)

    def ancestors(self) -> list[str]:
        """The chroot and its parents, outermost first."""
        parts = self.prefix.split("/")[1:]
        return ["/" + "/".join(parts[: depth + 1]) for depth in range(len(parts))]
