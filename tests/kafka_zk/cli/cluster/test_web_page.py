"""The web page of ``up`` is a child process; only its user can read its log."""

import os
from pathlib import Path

import pytest

from kafka_zk.cli.cluster.web_page import LOG, WebPage
from kafka_zk.embedded.process import ChildProcess


def test_its_log_which_has_the_token_is_for_its_user_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is private even if another file or a link was there before, and whatever the umask."""
    data_dir, elsewhere = tmp_path / "cluster", tmp_path / "elsewhere"

    def start(process: ChildProcess) -> None:
        with process.log_file.open("a") as log:
            log.write("the page is at ...\n")

    monkeypatch.setattr(ChildProcess, "start", start)
    before = os.umask(0)
    try:
        WebPage(data_dir, 0)
        assert (data_dir / LOG).stat().st_mode & 0o777 == 0o600
        (data_dir / LOG).chmod(0o666)
        WebPage(data_dir, 0)
        assert (data_dir / LOG).stat().st_mode & 0o777 == 0o600
        (data_dir / LOG).unlink()
        (data_dir / LOG).symlink_to(elsewhere)
        WebPage(data_dir, 0)
    finally:
        os.umask(before)
    assert (data_dir / LOG).is_file() and not elsewhere.exists()
