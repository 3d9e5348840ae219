"""A recording becomes one file that shows a colleague the same page; anything else is refused with a sentence."""

from pathlib import Path

import pytest

from kafka_zk.cli.cluster.web_recordings import export_page, export_sentences, open_recording, save_recording
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.recorder.recording.errors import NoRecording
from kafka_zk.recorder.recording.recording import Recording
from tests.kafka_zk.recorder.recording.histories import history


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    recording = Recording(tmp_path / "recorded.sqlite")
    recording.add([], [transaction for transaction, _ in history(5, 200)])
    recording.close()
    return tmp_path / "recorded.sqlite"


def test_a_saved_recording_is_opened_as_the_recording_itself(recorded: Path, tmp_path: Path) -> None:
    """The saved recording can be saved again, and never replaces an existing file."""
    file = tmp_path / "recording.kzr"
    assert save_recording(str(recorded), file).startswith(f"saved {file}: ")
    counts = []
    for each in (recorded, file):
        recording, cluster, described = open_recording(str(each))
        assert (cluster, described) == (None, f"recording {each.name}")
        counts.append(recording.entries.count)
        recording.close()
    assert counts[0] == counts[1] > 0
    with pytest.raises(CommandFailed, match="already exists"):
        save_recording(str(file), file)
    save_recording(str(file), tmp_path / "again.kzr")


def test_an_empty_recording_is_not_saved(tmp_path: Path) -> None:
    Recording(tmp_path / "empty.sqlite").close()
    with pytest.raises(CommandFailed, match="there is nothing to save"):
        save_recording(str(tmp_path / "empty.sqlite"), tmp_path / "recording.kzr")
    assert not (tmp_path / "recording.kzr").exists()


def test_an_exported_page_does_not_replace_a_file(recorded: Path, tmp_path: Path) -> None:
    """The markup that embeds the page names its directory and a time, and gives it no rights in the embedding page."""
    exported = export_page(str(recorded), tmp_path / "new" / "a #1")
    assert (tmp_path / "new" / "a #1" / "index.html").stat().st_size == exported.page_bytes > exported.recording_bytes
    embedded = f'<iframe src="a%20%231/index.html#{exported.moment}" title="recording recorded.sqlite" sandbox='
    assert exported.iframe.startswith(embedded)
    assert f"such as file://{tmp_path}/new/a%20%231/index.html#{exported.moment}." in export_sentences(exported)
    with pytest.raises(CommandFailed, match="already exists"):
        export_page(str(recorded), tmp_path / "new" / "a #1")
    with pytest.raises(CommandFailed, match="cannot be written: Not a directory"):
        export_page(str(recorded), recorded / "page")


def test_a_damaged_lesson_is_not_exported(recorded: Path, tmp_path: Path) -> None:
    recording = Recording(recorded)
    recording.note("lesson", "{")
    recording.close()
    with pytest.raises(CommandFailed, match="cannot be exported: the lesson in this recording cannot be read"):
        export_page(str(recorded), tmp_path / "outage")
    assert not (tmp_path / "outage").exists()


@pytest.mark.parametrize("content", [b"KZR1", b"KZR1" + bytes(40), b"SQLite format 3", b"\xff\xd8\xff a picture", b""])
def test_a_foreign_or_torn_file_is_a_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises((NoRecording, CommandFailed)) as refusal:
        open_recording(str(tmp_path / "file"))
    assert str(tmp_path / "file") in str(refusal.value) and "\n" not in str(refusal.value)
