"""Two builds of an sdist differ in times and owners; what is made of them does not."""

import io
import tarfile
from pathlib import Path

import pytest

from tests.release.distributions import NotReproducible, digests, repacked, require_equal

EPOCH = 1_800_000_000


def sdist(*, mtime: int, uid: int, mode: int, names: tuple[str, ...] = ("b/file", "a")) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.uid, member.mode = 4, mtime, uid, mode
            archive.addfile(member, io.BytesIO(b"text"))
    return written.getvalue()


def test_times_owners_order_and_umasks_leave_no_trace() -> None:
    first = repacked(sdist(mtime=1, uid=0, mode=0o600), EPOCH)
    second = repacked(sdist(mtime=9, uid=7, mode=0o664, names=("a", "b/file")), EPOCH)
    assert first == second
    with tarfile.open(fileobj=io.BytesIO(first)) as archive:
        assert [(member.name, member.mtime, member.mode) for member in archive] == [
            ("a", EPOCH, 0o644),
            ("b/file", EPOCH, 0o644),
        ]
        content = archive.extractfile("a")
        assert content is not None and content.read() == b"text"


def test_contents_and_programs_leave_their_trace() -> None:
    plain = repacked(sdist(mtime=1, uid=0, mode=0o644), EPOCH)
    assert plain != repacked(sdist(mtime=1, uid=0, mode=0o755), EPOCH)
    assert plain != repacked(sdist(mtime=1, uid=0, mode=0o644, names=("a",)), EPOCH)


def test_files_that_differ_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"1")
    first = digests([tmp_path / "a.whl"])
    (tmp_path / "a.whl").write_bytes(b"2")
    with pytest.raises(NotReproducible, match=r"differ: a.whl, b.whl\."):
        require_equal({**first, "b.whl": "0"}, digests([tmp_path / "a.whl"]))
    require_equal(first, first)
