"""Files with secrets."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.embedded.errors import EmbeddedError
from kafka_zk.embedded.private_files import private_folder, write_private


@pytest.fixture(autouse=True)
def no_umask() -> Iterator[None]:
    """Only the file's own mode protects it."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_private_when_its_first_byte_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has this mode from its creation on."""
    made: list[int] = []
    real = os.open

    def opened(path: Any, flags: int, mode: int = 0o777, **options: Any) -> int:
        if flags & os.O_CREAT:
            assert flags & os.O_EXCL
            made.append(mode)
        return real(path, flags, mode, **options)

    monkeypatch.setattr(os, "open", opened)
    path = write_private(tmp_path / "key.pem", "secret")
    assert made == [0o600]
    assert path.read_text() == "secret" and mode(path) == 0o600


def test_a_file_that_others_could_read_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("old")
    path.chmod(0o644)
    with path.open() as before:
        write_private(path, b"new")
        assert before.read() == "old"  # a process that has the old file open does not see the new secret
    assert path.read_text() == "new" and mode(path) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_text("kept")
    link = tmp_path / "key.pem"
    link.symlink_to(target)
    write_private(link, "secret")
    assert target.read_text() == "kept" and not link.is_symlink()


def test_nothing_is_left_of_a_file_that_could_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        write_private(tmp_path / "key.pem", "secret")
    assert not list(tmp_path.iterdir())


def test_a_folder_is_private_and_may_be_there_already(tmp_path: Path) -> None:
    folder = private_folder(tmp_path / "security")
    assert mode(folder) == 0o700
    assert private_folder(folder) == folder


def test_a_folder_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "security"
    folder.mkdir(mode=0o755)
    with pytest.raises(EmbeddedError, match=r"others can enter .*security \(mode 0755\).*chmod 700"):
        private_folder(folder)


def test_a_link_is_no_folder_of_ours(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "security").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EmbeddedError, match="folder that you own"):
        private_folder(tmp_path / "security")
