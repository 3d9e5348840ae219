"""A cluster in memory, as the page's operations see it."""

import contextlib
from collections.abc import Iterator
from typing import Any, Self

from kafka_zk.cli.groups.group_kinds import GroupKind


class Opened:
    def __init__(self, access: Any) -> None:
        self.access = access
        self.notes: list[str] = []

    @contextlib.contextmanager
    def open(self, kind: GroupKind | None) -> Iterator[Any]:
        """In place of ``PageConnection.open``."""
        yield self

    def told(self, kind: GroupKind) -> dict[str, Any]:
        return {"principal": f"User:{kind}", "asked_ms": 1, "notes": list(self.notes)}


class Access:
    """Access to a cluster with the topic t, as operations open it."""

    @property
    def brokers(self) -> Self:
        return self

    @contextlib.contextmanager
    def asked(self) -> Iterator[Self]:
        yield self

    def list_topics(self) -> list[str]:
        return ["t"]
