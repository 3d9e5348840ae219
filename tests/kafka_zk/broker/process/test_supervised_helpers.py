"""A helper that writes logs for the broker holds the broker's session pipe, so the broker counts as alive while the
helper lives.
"""

import os
from pathlib import Path

import pytest

from kafka_zk.broker.process.server import helper_holding
from kafka_zk.registry.client.session_pipe import SessionPipe

pytestmark = pytest.mark.integration


def at_end_of_file(descriptor: int) -> bool:
    os.set_blocking(descriptor, False)
    try:
        return os.read(descriptor, 1) == b""
    except BlockingIOError:
        return False


def test_it_is_held_until_the_helper_has_ended(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    with (tmp_path / "lock").open("w") as lock:
        helper = helper_holding(SessionPipe(write_end), 0, 0, [lock.fileno()])
        folder = Path(f"/proc/{helper.process.pid}/fd")
        assert str(tmp_path / "lock") in {os.readlink(file) for file in folder.iterdir()}
    os.close(write_end)
    assert not at_end_of_file(read_end)
    helper.end()
    assert at_end_of_file(read_end)
    os.close(read_end)


def test_without_a_supervisor_it_holds_nothing_more() -> None:
    helper = helper_holding(None, 0, 0)
    assert helper.is_alive
    helper.end()
