"""Notes go to stderr, or to the page's thread that collects them."""

from threading import Thread

import pytest

from kafka_zk.cli.terminal.output import collected_notes, note


def test_collected_notes_are_those_of_one_thread(capsys: pytest.CaptureFixture[str]) -> None:
    with collected_notes() as notes:
        note("offset 9 is out of range")
        other = Thread(target=note, args=("another command",))
        other.start()
        other.join()
    note("afterwards")
    assert notes == ["offset 9 is out of range"]
    assert capsys.readouterr().err.splitlines() == ["another command", "afterwards"]
