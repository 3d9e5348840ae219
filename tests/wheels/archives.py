"""Normalises archives, so that modes, owners, times and the order of files are the same on every machine."""

import gzip
import io
import os
import tarfile
from pathlib import Path

FILE_MODE, FOLDER_MODE = 0o644, 0o755


def normalize_tree(folder: Path, time_s: int) -> None:
    """Give all files and folders the same mode and time."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(FOLDER_MODE if path.is_dir() else FILE_MODE)
            os.utime(path, (time_s, time_s))


def normalize_sdist(path: Path, time_s: int) -> None:
    """Rewrite a ``.tar.gz`` with sorted files and the same owner, mode and time for each."""
    members: list[tuple[tarfile.TarInfo, bytes]] = []
    with tarfile.open(path) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            members.append((member, content.read() if content else b""))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member, data in sorted(members, key=lambda pair: pair[0].name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = time_s, 0, 0, "", ""
            member.mode = FOLDER_MODE if member.isdir() else FILE_MODE
            member.pax_headers = {}
            archive.addfile(member, io.BytesIO(data))
    path.write_bytes(gzip.compress(packed.getvalue(), mtime=time_s))
