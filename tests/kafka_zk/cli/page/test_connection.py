"""The page's questions and acts wait for each other, but not for ever."""

import click
import pytest

from kafka_zk.cli.groups.group_kinds import GroupKind
from kafka_zk.cli.page import connection as module
from kafka_zk.cli.page.connection import PageConnection
from kafka_zk.cli.terminal.errors import CommandFailed


def test_an_act_is_refused_if_those_before_it_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAIT_S", 0.0)
    with click.Context(click.Command("web")).scope():
        connection = PageConnection("127.0.0.1:1")
    with (
        connection._turn(),
        pytest.raises(CommandFailed, match="not answered the earlier questions yet: nothing was done"),
        connection.open(GroupKind.BROKER),
    ):
        pass
    with connection._turn():
        pass
