"""Rules for commit messages, and the command that checks them."""

import subprocess
from pathlib import Path

import pytest

from tests import commit_messages
from tests.commit_messages import faults, main

WHY = "\n\nA reader wants to know why."


@pytest.mark.parametrize(
    "message",
    [
        "Serve reads from followers" + WHY,
        "Feed the cleaner" + WHY,
        "Merge branch 'x'",
        "Name the file\n\nWhy.\n# Please enter the commit message for your changes.",
        "x".upper() * 72 + WHY,
    ],
)
def test_good_messages(message: str) -> None:
    assert not list(faults(message))


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("", "has no subject"),
        ("# only a comment", "has no subject"),
        ("X" * 73 + WHY, "has a subject of 73 characters; at most 72"),
        ("Serve reads." + WHY, "has a subject with a full stop"),
        ("serve reads" + WHY, "has a subject that does not begin with a capital letter"),
        ("Added reads" + WHY, "has a subject that begins with 'Added', not with an imperative"),
        ("Fixes reads" + WHY, "has a subject that begins with 'Fixes', not with an imperative"),
        ("Serve reads\nfrom followers", "has no blank line after its subject"),
        ("Serve reads", "has no body that says why"),
        ("Serve reads\n\n# a comment of git", "has no body that says why"),
    ],
)
def test_faults(message: str, fault: str) -> None:
    assert list(faults(message)) == [fault]


def test_a_message_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "COMMIT_EDITMSG"
    file.write_text("Added reads")
    assert main(["--file", str(file)]) == 1
    assert "this commit has no body" in capsys.readouterr().err
    file.write_text("Serve reads" + WHY)
    assert main(["--file", str(file)]) == 0


def commit(message: str) -> None:
    author = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
    subprocess.run(["git", *author, "commit", "-q", "--allow-empty", "-m", message], check=True)


def test_the_history_since_the_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "-q"], check=True)
    commit("old and without rules")
    first = subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    monkeypatch.setattr(commit_messages, "FIRST_CHECKED", first)
    commit("Serve reads" + WHY)
    assert main([]) == 0
    commit("Added reads" + WHY)
    assert main([]) == 1
    fault = "has a subject that begins with 'Added', not with an imperative\n"
    assert capsys.readouterr().err.endswith(f" (Added reads) {fault}")


def test_without_a_history_nothing_is_checked_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert main([]) == 0
    assert "not checked" in capsys.readouterr().out
