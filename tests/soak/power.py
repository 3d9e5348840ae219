"""A disk that loses power: changes that were not fsynced may be lost, kept, or kept in part.

``Disk`` records every fsync of storage. ``lose_power`` then builds the folder as the next boot might find it: files
as they were when they were last synced, or longer by any part of what was appended since; names as they were when their
directory was last synced, or as they are now. A random source chooses. This is stricter than real file systems, which
preserve more order than POSIX promises; here, only removals keep their order.
"""

import os
import random
import stat
from pathlib import Path

from kafka_zk.sim.machine.disk import survivor
from kafka_zk.storage.files.files import Data, FileSystem


class Disk(FileSystem):
    """The durable content of one folder; while this is in use, nothing is really synced."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._contents: dict[int, bytes] = {}  # inode -> content at its last fsync
        self._names: dict[int, dict[str, int]] = {}  # inode of a directory -> entries at its last fsync
        self._held: dict[int, int] = {}  # inode -> a descriptor, so that its number is not given to another file
        for path in [root, *root.rglob("*")]:  # what existed at boot is durable
            descriptor = os.open(path, os.O_RDONLY)
            self.sync(descriptor)
            os.close(descriptor)

    def sync(self, descriptor: int) -> None:
        found = os.fstat(descriptor)
        if found.st_ino not in self._held:
            self._held[found.st_ino] = os.dup(descriptor)
        if stat.S_ISDIR(found.st_mode):
            self._names[found.st_ino] = {entry.name: entry.inode() for entry in os.scandir(descriptor)}
        else:
            self._contents[found.st_ino] = Path(f"/proc/self/fd/{descriptor}").read_bytes()

    sync_data = sync

    def lose_power(self, rng: random.Random, target: Path) -> None:
        """Build in ``target`` what the next start finds."""
        self._rebuild_directory(rng, self._root, target)
        self.forget()

    def forget(self) -> None:
        """Release the descriptors; the disk is not used any more."""
        for descriptor in self._held.values():
            os.close(descriptor)
        self._held.clear()

    def _rebuild_directory(self, rng: random.Random, source: Path, target: Path) -> None:
        target.mkdir()
        now = {entry.name: entry.inode() for entry in os.scandir(source)}
        then = self._names.get(os.stat(source).st_ino, {})
        vanished = sorted(then.keys() - now.keys())
        forgotten = set(vanished[: rng.randint(0, len(vanished))])  # a journal keeps the order of removals
        for name in sorted(now.keys() | then.keys()):
            inode = rng.choice((now.get(name), then.get(name))) if name in now else then[name]
            if inode is None or name in forgotten:
                continue
            if inode != now.get(name) and self._became_a_directory(inode):
                continue  # the number was reused after the file was deleted
            if inode == now.get(name) and (source / name).is_dir():
                self._rebuild_directory(rng, source / name, target / name)
            else:
                current = (source / name).read_bytes() if inode == now.get(name) else None
                (target / name).write_bytes(self._content(rng, name, inode, current))

    def _became_a_directory(self, inode: int) -> bool:
        return inode in self._held and stat.S_ISDIR(os.fstat(self._held[inode]).st_mode)

    def _content(self, rng: random.Random, name: str, inode: int, current: bytes | None) -> bytes:
        durable = self._contents.get(inode, b"")
        if current is None and inode in self._held:
            current = Path(f"/proc/self/fd/{self._held[inode]}").read_bytes()
        if current is None:
            return durable
        return survivor(rng, name, durable, current)


class JournaledDisk(Disk):
    """A disk with atomic renames, as every file system promises them: a file has either its old or its new name.

    Each change of a name since a directory's last fsync may be durable or not, independently of the others.
    ``kill_at``: the number of the change before which everything ends with ``Killed``; a write may be half done.
    """

    def __init__(self, root: Path, kill_at: int | None = None) -> None:
        self._changes: dict[str, list[dict[str, tuple[int, int | None]]]] = {}  # directory -> name -> (inode, new)
        self._kill_at = kill_at
        self._is_dead = False
        self.steps = 0
        self._is_booting = True
        super().__init__(root)
        self._is_booting = False

    def _step(self) -> bool:
        """Returns True if the process dies during the next change."""
        if self._is_dead:
            raise Killed
        self.steps += not self._is_booting
        self._is_dead = self.steps == self._kill_at
        return self._is_dead

    def _die_or(self) -> None:
        if self._step():
            raise Killed

    def open(self, path: str, flags: int) -> int:
        is_new = bool(flags & os.O_CREAT) and not os.path.exists(path)
        if flags & (os.O_CREAT | os.O_TRUNC):
            self._die_or()
        elif self._is_dead:
            raise Killed
        descriptor = super().open(path, flags)
        if is_new:
            inode = os.fstat(descriptor).st_ino
            self._hold(descriptor)
            self._note(path, {os.path.basename(path): (inode, inode)})
        return descriptor

    def _hold(self, descriptor: int) -> None:
        inode = os.fstat(descriptor).st_ino
        if inode not in self._held:
            self._held[inode] = os.dup(descriptor)

    def _note(self, path: str, change: dict[str, tuple[int, int | None]]) -> None:
        self._changes.setdefault(os.path.dirname(path), []).append(change)

    def write(self, descriptor: int, data: Data) -> int:  # type: ignore[override]
        if self._step():
            os.write(descriptor, memoryview(data)[: len(data) // 2])
            raise Killed
        return os.write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        self._die_or()
        super().sync(descriptor)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            self._changes.pop(os.readlink(f"/proc/self/fd/{descriptor}"), None)

    sync_data = sync

    def truncate(self, descriptor: int, size_bytes: int) -> None:
        self._die_or()
        super().truncate(descriptor, size_bytes)

    def rename(self, path: str, target: str) -> None:
        self._die_or()
        descriptor = os.open(path, os.O_RDONLY)
        self._hold(descriptor)
        os.close(descriptor)
        inode = os.stat(path).st_ino
        super().rename(path, target)
        self._note(path, {os.path.basename(path): (inode, None), os.path.basename(target): (inode, inode)})

    def remove(self, path: str) -> None:
        self._die_or()
        descriptor = os.open(path, os.O_RDONLY)
        self._hold(descriptor)
        os.close(descriptor)
        inode = os.stat(path).st_ino
        super().remove(path)
        self._note(path, {os.path.basename(path): (inode, None)})

    def _rebuild_directory(self, rng: random.Random, source: Path, target: Path) -> None:
        target.mkdir()
        names = dict(self._names.get(os.stat(source).st_ino, {}))
        for change in self._changes.get(str(source), []):
            if rng.random() < 0.5:
                for name, (inode, new) in change.items():
                    if new is not None:
                        names[name] = new
                    elif names.get(name) == inode:
                        del names[name]
        for name, inode in sorted(names.items()):
            if (source / name).is_dir() and (source / name).stat().st_ino == inode:
                self._rebuild_directory(rng, source / name, target / name)
            else:
                (target / name).write_bytes(self._content(rng, name, inode, None))


class Killed(BaseException):
    """The simulated process is dead: nothing that it still does reaches the disk."""
