"""Run a command with a Docker engine: ``python -m tests.containers.engine COMMAND…``.

A running engine is used. Otherwise, on Debian and as root, the packages are installed, and ``dockerd`` is started for
the duration of the command and stopped afterwards. Exit code: the command's; 1 with one sentence if there is no engine
and none can be started, so there is no silent success.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

LOG = Path(__file__).resolve().parents[2] / "target" / "containers" / "dockerd.log"
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 30
PACKAGES = {  # program -> Debian's package of it
    "dockerd": "docker.io",
    "iptables": "iptables",
    "docker-compose": "docker-compose",
    "debootstrap": "debootstrap",
}
# From the best flags to those that always work: a machine may lack overlayfs, or netfilter.
FLAGS = ((), ("--storage-driver=vfs",), ("--storage-driver=vfs", "--iptables=false"))


class NoEngine(Exception):
    """There is no Docker engine, and none can be started here."""


def main() -> int:
    try:
        install_missing()
        with running_engine():
            return subprocess.run(sys.argv[1:], env=environ(), check=False).returncode
    except NoEngine as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1


def environ() -> dict[str, str]:
    """The environment of the command: no reaper, whose image would be pulled; the classic builder, which needs no
    plugin.
    """
    return {**os.environ, "TESTCONTAINERS_RYUK_DISABLED": "true", "DOCKER_BUILDKIT": "0"}


def answers() -> bool:
    """Whether an engine responds to the command-line client."""
    if not shutil.which("docker"):
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


def install_missing() -> None:
    """Install the missing Debian packages that the tests need. Raises: NoEngine."""
    wanted = [package for program, package in PACKAGES.items() if not shutil.which(program, path=_PATH)]
    if not wanted:
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise NoEngine(f"not root on Debian, so these have to be installed by hand: {', '.join(wanted)}")
    install = ["apt-get", "install", "-q", "-y", "--no-install-recommends", *wanted]
    for command in (["apt-get", "update", "-q"], install):
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        done = subprocess.run(command, env=quiet, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NoEngine(f"`{' '.join(command)}` ended with {done.returncode}: {done.stderr.strip()[-300:]}")


_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


@contextlib.contextmanager
def running_engine() -> Iterator[None]:
    """An engine within the block; one that was started for it ends with it. Raises: NoEngine."""
    if answers():
        yield
        return
    if os.geteuid() != 0:
        raise NoEngine("no Docker engine answers, and only root can start one")
    daemon = _start()
    try:
        yield
    finally:
        daemon.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            daemon.wait(STOP_TIMEOUT_S)
        daemon.kill()


def _start() -> "subprocess.Popen[bytes]":
    LOG.parent.mkdir(parents=True, exist_ok=True)
    for flags in FLAGS:
        daemon = _try(flags)
        if daemon is not None:
            return daemon
    raise NoEngine(f"dockerd does not start, neither with {' nor with '.join(map(' '.join, FLAGS[1:]))}: see {LOG}")


def _try(flags: tuple[str, ...]) -> "subprocess.Popen[bytes] | None":
    with LOG.open("ab") as log:
        log.write(f"\n=== dockerd {' '.join(flags)}\n".encode())
        log.flush()
        daemon = subprocess.Popen(
            ["dockerd", *flags],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PATH": _PATH},
            start_new_session=True,
        )
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while daemon.poll() is None and time.monotonic() < deadline_s:
        if answers():
            return daemon
        time.sleep(0.2)
    if daemon.poll() is None:
        os.killpg(daemon.pid, signal.SIGKILL)
        daemon.wait()
    return None


if __name__ == "__main__":
    sys.exit(main())
