"""The recordings that ``kafka-zk web`` opens, and what it exports from them: a file for a colleague, or a page."""

import os
from contextlib import ExitStack
from html import escape
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.output import note
from kafka_zk.recorder.page_export.page import exported_page
from kafka_zk.recorder.page_export.page_data import NotExportable, Progress, silent
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.recording.shared_file import is_shared_file, open_shared_file, save
from kafka_zk.recorder.web.api import BadRequest
from kafka_zk.sim.scenarios import library

_SQLITE = b"SQLite"
_FRAME = 'sandbox="allow-scripts allow-downloads" width="100%" height="800" loading="lazy"'


def open_recording(name: str) -> tuple[Recording, None, str]:
    """Open a recording, a saved part of one, or a scenario, which is run first. Returns the recording, None in
    place of a live cluster, and the recording's description.

    Raises: NoRecording, CommandFailed, sqlite3.Error, OSError.
    """
    path = Path(name)
    found = library.find(name)
    if found in (None, path) and path.is_file() and is_shared_file(path):
        return open_shared_file(path), None, f"recording {path.name}"
    if found in (None, path) and (not path.is_file() or _begin(path) == _SQLITE):
        return Recording(path, read_only=True), None, f"recording {path.name}"
    return _played(found or path), None, f"scenario {path.stem}"


def save_recording(name: str, target: Path) -> str:
    """Save the whole recording as one file without secrets; returns a sentence that says so.

    Raises: as ``open_recording``; CommandFailed also if the target exists or there is nothing to save.
    """
    recording, _, _ = open_recording(name)
    try:
        if not recording.entries.count:
            raise CommandFailed(f"{name} has no entries: there is nothing to save")
        save(recording, target, recording.entries.first, recording.entries.count)
    except FileExistsError as error:
        raise CommandFailed(f"{target} already exists: choose another name, or delete it") from error
    finally:
        recording.close()
    return f"saved {target}: {target.stat().st_size / 1000:,.0f} kB; kafka-zk web {target} shows it"


class Exported(NamedTuple):
    """A page that was written. ``page_bytes`` include the recording's ``recording_bytes``. ``iframe``: markup that
    shows it, at ``moment``, in another page, whose file must be beside the directory of this page.
    """

    page: str
    entries: int
    page_bytes: int
    recording_bytes: int
    moment: str
    iframe: str


def export_page(name: str, directory: Path, progress: Progress = silent) -> Exported:
    """Write the page of a recording, which needs no server, as ``index.html`` of ``directory``.

    Raises: as ``open_recording``; CommandFailed also if the page exists, cannot be written, or would be too large.
    """
    recording, _, described = open_recording(name)
    target = directory / "index.html"
    try:
        if target.exists():
            raise CommandFailed(f"{target} already exists: choose another directory, or delete it")
        page = exported_page(recording, described, progress)
        count = recording.entries.count - recording.entries.first + 1
        directory.mkdir(parents=True, exist_ok=True)
        _write_new(target, page.content)
    except (NotExportable, BadRequest) as error:
        raise CommandFailed(f"{name} cannot be exported: {error}") from error
    except OSError as error:
        raise CommandFailed(f"{target} cannot be written: {error.strerror}") from error
    finally:
        recording.close()
    source = f"{quote(os.fsencode(directory.resolve().name))}/{target.name}#{page.moment}"
    iframe = f'<iframe src="{source}" title="{escape(described)}" {_FRAME}></iframe>'
    return Exported(str(target), count, len(page.content), page.data_bytes, page.moment, iframe)


def _write_new(target: Path, content: bytes) -> None:
    with target.open("xb") as file, ExitStack() as undo:
        undo.callback(target.unlink)  # leave no incomplete page
        file.write(content)
        file.flush()
        undo.pop_all()


def export_sentences(exported: Exported) -> str:
    """The result of an export as sentences."""
    return (
        f"wrote {exported.page}: {exported.entries:,} entries, {exported.page_bytes / 1000:,.0f} kB, of which "
        f"{exported.recording_bytes / 1000:,.0f} kB are the recording\n"
        "Open it in a browser, or put its directory on any web host; it asks no server for anything.\n"
        f"A moment of it has an address, such as {_address(exported)}. To embed it:\n{exported.iframe}"
    )


def _address(exported: Exported) -> str:
    return f"{Path(exported.page).absolute().as_uri()}#{exported.moment}"


def _begin(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(len(_SQLITE))


def _played(path: Path) -> Recording:
    from twisted.logger import globalLogBeginner

    from kafka_zk.sim.replay.recorded import record
    from kafka_zk.sim.scenarios.scenario import parse
    from kafka_zk.sim.scenarios.statements import ScenarioError

    globalLogBeginner.beginLoggingTo([], discardBuffer=True, redirectStandardIO=False)  # the judges receive the errors
    try:
        scenario = parse(path.read_text())
        note(f"playing {path.stem}: {scenario.title}")
        recording = Recording()
        record(scenario, recording)
    except (ScenarioError, UnicodeDecodeError) as error:
        raise CommandFailed(f"{path} is neither a recording nor a scenario: {error}") from error
    return recording
