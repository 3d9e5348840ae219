"""Invalid group names are refused before a command connects to ZooKeeper."""

import contextlib
from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from kafka_zk.cli.groups import group_access
from kafka_zk.cli.groups.group_access import Where
from kafka_zk.cli.groups.group_kinds import GroupKind
from kafka_zk.cli.main import run
from kafka_zk.cli.terminal import output

NOWHERE = ("--zookeeper", "127.0.0.1:1")


@pytest.mark.parametrize("name", [".", "..", "a/b", "a\n"])
@pytest.mark.parametrize(
    "command",
    [
        ("groups", "describe", "--type", "zookeeper"),
        ("groups", "delete", "--type", "zookeeper"),
        ("groups", "delete-offsets", "--type", "zookeeper", "--topic", "t"),
        ("groups", "reset-offsets", "--type", "zookeeper", "--all-topics", "--to-latest"),
        ("groups", "migrate", "--to", "broker"),
        ("groups", "export"),
        ("watch",),
    ],
    ids=" ".join,
)
def test_what_cannot_be_a_group_in_zookeeper_is_a_usage_error(
    command: tuple[str, ...], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, *NOWHERE, "--group", name]) == 2
    assert f"{name!r} is not a valid name for a ZooKeeper group" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["broker", "zookeeper"])
def test_every_group_has_a_name(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["groups", "describe", *NOWHERE, "--type", kind, "--group", ""]) == 2
    assert "a group must have a name" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", "..", "a/b", "my group"])
def test_what_no_consumer_can_join_is_one_sentence(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["consume", *NOWHERE, "--topic", "t", "--group", name]) == 1
    assert capsys.readouterr().err.startswith(f"Error: group.id: {name!r} is not valid: use letters")


def test_a_notice_of_the_wait_is_erased_before_a_deletion_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line of the notice ends without a line break."""

    @contextlib.contextmanager
    def waits_all_the_time(at: Where) -> Iterator[Mock]:
        yield Mock(the_one=lambda name: Mock(kind=GroupKind.ZOOKEEPER))

    monkeypatch.setattr(group_access, "group_access", waits_all_the_time)
    monkeypatch.setattr(output, "told", lambda: print("erased"))
    assert run(["groups", "delete", *NOWHERE, "--type", "zookeeper", "--group", "g"]) == 0
    assert capsys.readouterr().out.splitlines() == ["erased", "Deleted group g in ZooKeeper."]
