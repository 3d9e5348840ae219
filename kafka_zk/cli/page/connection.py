"""The cluster of the page, for one question or act at a time on a thread of the page's server."""

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import click

from kafka_zk.base.clock import wall_ms
from kafka_zk.cli.groups.group_access import GroupAccess, Where, group_access
from kafka_zk.cli.groups.group_kinds import GroupKind
from kafka_zk.cli.page.principals import principal_at_brokers, principal_in_zookeeper
from kafka_zk.cli.terminal.command_config import command_security
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.options import zookeeper_properties
from kafka_zk.cli.terminal.output import collected_notes
from kafka_zk.registry.client.security_keys import zookeeper_security

if TYPE_CHECKING:
    from kafka_zk.recorder.recording.documents import Document


WAIT_S = 30.0
"""How long a question or an act waits for those before it: an act requested long ago must not be carried out."""


class Connected(NamedTuple):
    """``notes``: what the command line would print on stderr."""

    access: GroupAccess
    notes: list[str]

    def told(self, kind: GroupKind) -> "Document":
        """As whom the groups of that kind, or the brokers, were asked, when, and the notes."""
        if kind is GroupKind.BROKER:
            principal = principal_at_brokers(command_security())
        else:
            principal = principal_in_zookeeper(zookeeper_security(zookeeper_properties()))
        return {"principal": principal, "asked_ms": wall_ms(), "notes": list(self.notes)}


class PageConnection:
    """Connects with the security options of the current command, so it must be created on the command's thread."""

    def __init__(self, zookeeper: str) -> None:
        self._zookeeper = zookeeper
        self._context = click.get_current_context()
        self._one_at_a_time = threading.Lock()

    @contextlib.contextmanager
    def open(self, kind: GroupKind | None) -> Iterator[Connected]:
        """``kind``: of groups; None: both kinds. Raises CommandFailed, KafkaError, RegistryError."""
        with (
            self._turn(),
            self._context.scope(cleanup=False),
            collected_notes() as notes,
            group_access(Where(self._zookeeper, kind=kind)) as access,
        ):
            yield Connected(access, notes)

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        if not self._one_at_a_time.acquire(timeout=WAIT_S):
            raise CommandFailed("the cluster has not answered the earlier questions yet: nothing was done")
        try:
            yield
        finally:
            self._one_at_a_time.release()
