"""A process's output goes to a few files of bounded size."""

import subprocess
import sys
from pathlib import Path

from kafka_zk.embedded.process import ChildProcess
from tests.integration.processes import wait_for

ROOT = Path(__file__).parents[4]
PROGRAM = """
import logging, os, sys
from pathlib import Path
from kafka_zk.broker.process import log_file, logs
log_file.LOG_FILE_BYTES, log_file.LOG_FILE_COUNT = 1000, 3
logs.configure(log_file=log_file.LogFile(Path(sys.argv[1])))
print("plain", flush=True)
for number in range(int(sys.argv[2])):
    logging.getLogger("x").info("line %03d", number)
os.write(2, b"from below\\n")
"""


def written(folder: Path, count: int) -> list[Path]:
    """The contents of the files, the oldest first."""
    log = folder / "broker.log"
    command = [sys.executable, "-c", PROGRAM, str(log), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return sorted(folder.iterdir(), key=lambda file: file.name, reverse=True)


def test_everything_goes_to_the_file_and_what_was_there_stays(tmp_path: Path) -> None:
    (tmp_path / "broker.log").write_text("an earlier life\n")
    (log,) = written(tmp_path, 3)
    lines = log.read_text().splitlines()
    assert lines[:2] == ["an earlier life", "plain"]
    assert [line[-8:] for line in lines[2:-1]] == ["line 000", "line 001", "line 002"]
    assert lines[-1] == "from below"


def test_old_lines_go_when_the_files_are_full(tmp_path: Path) -> None:
    files = written(tmp_path, 500)
    assert [file.name for file in files] == ["broker.log.2", "broker.log.1", "broker.log"]
    assert all(file.stat().st_size < 1100 for file in files)
    lines = "".join(file.read_text() for file in files).splitlines()
    numbers = [int(line[-3:]) for line in lines[:-1]]
    assert numbers == list(range(numbers[0], 500)), "the lines have no gap and end with the last one"
    assert lines[-1] == "from below"


def test_a_parent_reads_what_its_child_said_also_after_a_rotation(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    log.write_text("an earlier life\n" * 10)
    child = ChildProcess("broker", [sys.executable, "-c", PROGRAM, log, "100"], log, {"PYTHONPATH": str(ROOT)})
    child.start()
    wait_for(lambda: not child.alive, "its end")
    assert child.output().endswith("from below\n")
    assert log.with_name("broker.log.2").exists()


DENIALS = """
import logging, sys
from pathlib import Path
from kafka_zk.broker.process import log_file, logs
log_file.LOG_FILE_BYTES, log_file.LOG_FILE_COUNT = 1000, 3
logs.configure(log_file=log_file.LogFile(Path(sys.argv[1])))
for number in range(int(sys.argv[2])):
    logging.getLogger(logs.AUTHORIZER_LOGGER).info("denial %03d", number)
logging.getLogger("x").info("something else")
"""


def denied(folder: Path, count: int) -> dict[str, str]:
    command = [sys.executable, "-c", DENIALS, str(folder / "broker.log"), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return {file.name: file.read_text() for file in folder.iterdir()}


def test_what_an_authorizer_denies_has_a_log_of_its_own(tmp_path: Path) -> None:
    """The log file appears with its first line, and its size is bounded like that of the others."""
    assert denied(tmp_path, 0).keys() == {"broker.log"}
    files = denied(tmp_path, 100)
    assert "denial" not in files["broker.log"] and "something else" in files["broker.log"]
    logs = {name: text for name, text in files.items() if name != "broker.log"}
    assert logs.keys() == {"kafka-authorizer.log", "kafka-authorizer.log.1", "kafka-authorizer.log.2"}
    assert all(len(text) < 1200 for text in logs.values())
    assert "denial 099" in logs["kafka-authorizer.log"] + logs["kafka-authorizer.log.1"]
    assert "something else" not in "".join(logs.values())
