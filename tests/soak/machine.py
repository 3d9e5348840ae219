"""A broker's machine, with a disk that can be filled and a clock that can be stepped.

The disk is a separate file system (tmpfs), so the tests must run as root.
"""

import contextlib
import os
import shutil
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

_DISK_MB = 300
_STEPPED_CLOCK = Path(__file__).with_name("stepped_clock")


class Machine:
    """A machine without faults."""

    environment: Mapping[str, str] = MappingProxyType({})
    """Environment variables of the broker's process."""

    def close(self) -> None:
        """Release the machine's resources, after the broker has ended."""


class FaultyMachine(Machine):
    """For our brokers.

    Args:
        folder: for its own files.
        log_dir: an empty folder, which becomes the small disk.

    Raises: RuntimeError if file systems cannot be mounted.
    """

    def __init__(self, folder: Path, log_dir: Path) -> None:
        self._log_dir = log_dir
        self._ballast = log_dir / "ballast"
        self._clock = folder / "clock"
        self._clock.write_bytes(struct.pack("<d", 0))
        found = [str(_STEPPED_CLOCK), os.environ.get("PYTHONPATH", "")]
        self.environment = {
            "KAFKA_ZK_STEPPED_CLOCK": str(self._clock),
            "PYTHONPATH": os.pathsep.join(filter(None, found)),
        }
        mounted = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_MB}m", "tmpfs", str(log_dir)]
        if (done := subprocess.run(mounted, capture_output=True, text=True)).returncode:
            raise RuntimeError(f"a small disk needs root: {done.stderr.strip()}")

    def step_clock(self, seconds: float) -> None:
        """From now on, the wall clock differs from the true time by the given seconds."""
        with self._clock.open("r+b") as file:
            file.write(struct.pack("<d", seconds))

    def fill_disk(self) -> None:
        """Fill every block, even if other processes write at the same time."""
        with self._ballast.open("wb") as file:
            while free := shutil.disk_usage(self._log_dir).free:
                with contextlib.suppress(OSError):  # less space is free by now
                    os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), free)

    def free_disk(self) -> None:
        self._ballast.unlink()

    def close(self) -> None:
        subprocess.run(["umount", "--lazy", str(self._log_dir)], check=True)
