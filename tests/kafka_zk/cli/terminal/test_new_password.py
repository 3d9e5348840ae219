"""The sources of a new password, and which passwords are refused; on a terminal: test_user_commands.py."""

import io
import sys
from pathlib import Path

import click
import pytest

from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.new_password import read_new_password


def given(monkeypatch: pytest.MonkeyPatch, folder: Path, data: bytes) -> str:
    """The password read from this stdin."""
    path = folder / "stdin"
    path.write_bytes(data)
    with path.open(encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        return read_new_password(None).value


def typed(monkeypatch: pytest.MonkeyPatch, *answers: str) -> str:
    """The password of a user who types these answers at the prompts."""
    left = list(answers)

    def prompt(text: str, **options: object) -> str:
        assert options["hide_input"] and options["err"]
        return left.pop(0)

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(click, "prompt", prompt)
    password = read_new_password(None)
    assert not left
    return password.value


@pytest.mark.parametrize("data", [b"pass w\xc3\xb6rd\n", b"pass w\xc3\xb6rd", b"pass w\xc3\xb6rd\r\n"])
def test_stdin_has_it_as_its_only_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data: bytes) -> None:
    assert given(monkeypatch, tmp_path, data) == "pass wörd"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"secret\nmore\n", "one line"),
        (b"\xffsecret\n", "not a text file in UTF-8"),
    ],
)
def test_what_is_no_password_is_refused_without_being_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data: bytes, sentence: str
) -> None:
    with pytest.raises(CommandFailed, match=sentence) as raised:
        given(monkeypatch, tmp_path, data)
    assert "secret" not in str(raised.value)


def test_a_closed_stdin_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(CommandFailed, match="no stdin"):
        read_new_password(None)


def test_a_file_wins_over_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert read_new_password(io.StringIO(" secret \n")).value == " secret "


def test_a_person_types_it_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    assert typed(monkeypatch, "secret", "secret") == "secret"
    with pytest.raises(CommandFailed, match="the two passwords differ"):
        typed(monkeypatch, "secret", "sekret")
    with pytest.raises(CommandFailed, match="the password is empty"):
        typed(monkeypatch, "")
    with pytest.raises(CommandFailed, match="UTF-8"):
        typed(monkeypatch, "\udcff", "\udcff")
