"""Removes from new interpreters what other operating systems lack.

``sitecustomize.py`` in a folder of PYTHONPATH runs first in every Python process, brokers and helpers included.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]
TIMEOUT_S = 120
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "kafka_zk.testing.plugin")

WITHOUT_LINUX = '''
"""No call that macOS lacks."""
import fcntl, mmap, os, resource, select, socket, sys, termios

for module, names in (
    (os, "fdatasync memfd_create preadv RWF_NOWAIT sendfile"),
    (fcntl, "F_OFD_SETLK"),
    (mmap, "MADV_HUGEPAGE"),
    (resource, "prlimit"),
    (select, "epoll"),
    (socket, "MSG_MORE"),
    (termios, "TIOCOUTQ"),
):
    for name in names.split():
        delattr(module, name)


class Mapping(mmap.mmap):
    def resize(self, size):
        raise SystemError("mmap: resizing not available--no mremap()")


def no_proc(event, arguments):
    if event in ("open", "os.listdir", "os.scandir") and str(arguments[0]).startswith("/proc"):
        raise FileNotFoundError(2, "No such file or directory", arguments[0])


def no_memory_limit(kind, limits, set_limit=resource.setrlimit):
    if kind == resource.RLIMIT_AS:
        raise ValueError("current limit exceeds maximum limit")
    set_limit(kind, limits)


mmap.mmap = Mapping
resource.setrlimit = no_memory_limit
sys.addaudithook(no_proc)
'''

WINDOWS = '''
"""No POSIX. Python's own modules must be those of this machine, so they are imported first."""
import pathlib, signal, subprocess, sys, tempfile, time

for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
for name in ("clock_gettime", "CLOCK_MONOTONIC", "CLOCK_REALTIME"):
    delattr(time, name)
for name in ("SIGHUP", "SIGKILL", "SIGSTOP", "SIGCONT"):
    delattr(signal, name)
sys.platform = "win32"
'''


def run_on(system: str, folder: Path, *arguments: str, path: str = "") -> "subprocess.CompletedProcess[str]":
    """Run Python with ``arguments`` in ``folder``, as on ``system``. ``path`` comes first in PATH."""
    site = folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(system)
    environ = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environ["PATH"] = f"{path}{os.pathsep}{environ['PATH']}" if path else environ["PATH"]
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
