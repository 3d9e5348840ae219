"""The recordings that ``kafka-zk web`` opens, and the file that it saves for a colleague."""

from pathlib import Path

from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.output import note
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.recording.shared_file import is_shared_file, open_shared_file, save
from kafka_zk.sim.scenarios import library

_SQLITE = b"SQLite"


def open_recording(name: str) -> tuple[Recording, None, str]:
    """Open a recording, a saved part of one, or a scenario, which is played; it has no cluster. The text describes it.

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
        raise CommandFailed(f"{target} exists already: choose another name, or delete it") from error
    finally:
        recording.close()
    return f"saved {target}: {target.stat().st_size / 1000:,.0f} kB; kafka-zk web {target} shows it"


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
