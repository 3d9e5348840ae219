"""Real file systems that lose power: a machine's disk is an image file on an XFS with reflinks, and a clone of the
image is the content of the disk if power fails at this moment.

The clone contains the data that a process has synced, but not the data that were only in the kernel's page cache. A
machine has two volumes, each with a file system of its own, in one image: a cut affects both at the same instant. The
module needs root, loop devices and the mkfs of each file system; ``unavailable`` names the missing ones.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path

from tests.locks import alone

FILESYSTEMS = ("ext4", "xfs", "btrfs")
VOLUMES = 2
VOLUME_BYTES = 512 << 20
"""mkfs.xfs requires 300 MB."""
POOL_BYTES = 64 << 30
"""The size of a sparse file: only the content of the images takes space."""
_TOOLS = ("losetup", "mount", "umount", "mkfs.xfs")
_LOCK = "lock"
_HELPERS_END_S = 20


class DiskError(Exception):
    """A command of the disks failed; ``str()`` is its command line and what it printed."""


def _run(*command: str | Path) -> str:
    """Run a command; returns its output. Raises: DiskError."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise DiskError(f"{' '.join(map(str, command))}: {done.stderr.strip() or done.returncode}")
    return done.stdout.strip()


@functools.cache
def unavailable(filesystem: str) -> str | None:
    """The reason why a file system cannot lose power here, as a sentence; None if it can."""
    if os.geteuid() != 0:
        return "power cuts need root: they mount file systems in loop devices"
    if missing := [tool for tool in (*_TOOLS, f"mkfs.{filesystem}") if shutil.which(tool) is None]:
        needed = ", ".join(missing)
        return f"power cuts on {filesystem} need {needed}: install xfsprogs, e2fsprogs, btrfs-progs and util-linux"
    try:
        with pool() as tried:
            machine = Machine(tried, "tried", filesystem)
            machine.mount()
            machine.cut("clone").delete()
            machine.unmount()
    except DiskError as error:
        return f"this kernel or container does not mount {filesystem} from a loop device: {error}"
    return None


class Pool:
    """The XFS with reflinks that images lie on; all mount points are in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.images = folder / "images"

    def make(self) -> None:
        """Raises: DiskError."""
        image = self.folder / "pool.img"
        with image.open("xb") as file:
            file.truncate(POOL_BYTES)
        _run("mkfs.xfs", "-q", "-m", "reflink=1", image)
        self.images.mkdir()
        _run("mount", "-t", "xfs", "-o", "loop", image, self.images)


@contextmanager
def pool(root: Path | None = None) -> Iterator[Pool]:
    """A pool in a new folder below ``root`` (default: ``kafka-zk-power`` in the folder for temporary files), unmounted
    and removed at the end. What earlier processes left there when they were killed is removed first.

    Raises: DiskError.
    """
    root = root or Path(tempfile.gettempdir()) / "kafka-zk-power"
    with ExitStack() as in_use:
        with _alone(root):
            root.mkdir(exist_ok=True)
            sweep(root)
            folder = Path(tempfile.mkdtemp(dir=root, prefix="pool-"))
            flock(in_use.enter_context((folder / _LOCK).open("w")), LOCK_EX)
        try:
            made = Pool(folder)
            made.make()
            yield made
        finally:
            with _alone(root):
                dismantle(folder)


def _alone(root: Path) -> AbstractContextManager[None]:
    """Hold a lock while pools are created in the folder or removed from it."""
    return alone(root.with_name(f"{root.name}-pools"))


def sweep(root: Path) -> None:
    """Dismantle the pools below ``root`` whose process has ended. Raises: DiskError."""
    for folder in sorted(root.glob("pool-*")):
        with (folder / _LOCK).open("a") as lock:
            try:
                flock(lock, LOCK_EX | LOCK_NB)
            except BlockingIOError:
                continue
            dismantle(folder)


def dismantle(folder: Path) -> None:
    """Unmount everything in ``folder``, release its loop devices, and remove it. Raises: DiskError."""
    for point in reversed(mount_points(folder)):
        _unmount(point)
    for device in loop_devices(folder):
        _run("losetup", "--detach", device)
    _when_helpers_have_ended(OSError, lambda: shutil.rmtree(folder))


def _unmount(point: Path) -> None:
    """Unmount as soon as no process has an open file there. Raises: DiskError."""
    _when_helpers_have_ended(DiskError, lambda: _run("umount", point))


def _when_helpers_have_ended(failure: type[Exception], action: Callable[[], object]) -> None:
    """Repeat work that may fail while the helper processes of a killed broker still run. Raises: ``failure``."""
    deadline_s = time.monotonic() + _HELPERS_END_S
    while True:
        try:
            action()
            return
        except failure:
            if time.monotonic() > deadline_s:
                raise
        time.sleep(0.05)


def mount_points(folder: Path) -> list[Path]:
    """The mount points in a folder, in the order of mounting."""
    points = (Path(line.split()[4]) for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return [point for point in points if point.is_relative_to(folder)]


def loop_devices(folder: Path) -> list[str]:
    """The loop devices whose files are in a folder and which are not mounted."""
    listed = _run("losetup", "--list", "--json", "--output", "NAME,BACK-FILE")
    devices: Sequence[dict[str, str]] = json.loads(listed or '{"loopdevices": []}')["loopdevices"]
    return [each["name"] for each in devices if Path(each["back-file"] or "/").is_relative_to(folder)]


class Image:
    """The content of a machine's disk at one moment."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def clone(self, name: str) -> Image:
        """The same blocks under another name; the clone does not sync before. Raises: DiskError."""
        target = self.path.with_name(f"{name}.img")
        _run("cp", "--reflink=always", self.path, target)
        return Image(target)

    def delete(self) -> None:
        self.path.unlink()


class Machine:
    """A disk of two volumes; each is mounted at one place, whichever image of the disk that is.

    A clone of a file system has the same identity, so an image is mounted only after the previous one was unmounted.
    """

    def __init__(self, pool: Pool, name: str, filesystem: str) -> None:
        self.filesystem = filesystem
        self.volumes = [pool.folder / name / f"volume-{number}" for number in range(VOLUMES)]
        self.image = Image(pool.images / f"{name}.img")
        with self.image.path.open("xb") as file:
            file.truncate(VOLUMES * VOLUME_BYTES)
        for number, point in enumerate(self.volumes):
            point.mkdir(parents=True)
            self._format(number)

    def _format(self, number: int) -> None:
        where = ("--offset", str(number * VOLUME_BYTES), "--sizelimit", str(VOLUME_BYTES))
        device = _run("losetup", "--find", "--show", *where, self.image.path)
        try:
            _run(f"mkfs.{self.filesystem}", "-q", device)
        finally:
            _run("losetup", "--detach", device)

    def mount(self, image: Image | None = None) -> None:
        """Mount an image of the disk, by default its own; the file systems replay their journals. Raises: DiskError."""
        self.image = image or self.image
        for number, point in enumerate(self.volumes):
            where = f"loop,offset={number * VOLUME_BYTES},sizelimit={VOLUME_BYTES}"
            _run("mount", "-t", self.filesystem, "-o", where, self.image.path, point)

    def cut(self, name: str) -> Image:
        """The content of the disk if power fails now. Raises: DiskError."""
        return self.image.clone(name)

    def unmount(self) -> None:
        """Raises: DiskError, if a process still has a file open."""
        for point in self.volumes:
            if point.is_mount():
                _unmount(point)
        if self.filesystem == "btrfs":  # otherwise, the kernel refuses an older clone of a device that it has seen
            _run("btrfs", "device", "scan", "--forget")
