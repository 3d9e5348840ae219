"""Build all distributions for a release: ``python -m tests.wheels target/dist`` (``make wheels``).

This builds kafka-zk as an sdist, a pure wheel and one native wheel for each platform in ``TARGETS``, and
kafka-zk-zookeeper as an sdist and a wheel. Zig compiles the native wheels on any machine. auditwheel gives each one its
platform tag, and abi3audit checks that it uses only the limited API. The same tree and SOURCE_DATE_EPOCH give the same
bytes; the default of SOURCE_DATE_EPOCH is the last commit's time.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fresh_environment import ROOT, copy_source
from tests.wheels.archives import normalize_sdist, normalize_tree

TARGETS = {
    "manylinux_2_17_x86_64": "x86_64-linux-gnu.2.17",
    "manylinux_2_17_aarch64": "aarch64-linux-gnu.2.17",
    "musllinux_1_2_x86_64": "x86_64-linux-musl",
    "musllinux_1_2_aarch64": "aarch64-linux-musl",
}
"""Platform tag -> Zig's target."""
ZOOKEEPER = ROOT / "docker" / "zookeeper-wheel"
EPOCH = "SOURCE_DATE_EPOCH"
BUILD = """
import sys
from setuptools import build_meta
getattr(build_meta, sys.argv[1])(sys.argv[2])
"""


class BuildFailed(Exception):
    """A command failed. The message contains its output."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="receives the distributions; those in it are removed")
    folder = parser.parse_args().folder.resolve()
    os.environ.setdefault(EPOCH, run("git", "log", "-1", "--format=%ct", cwd=ROOT).strip())
    try:
        build(folder)
    except BuildFailed as error:
        sys.exit(str(error))
    for path in sorted(folder.iterdir()):
        print(f"{path.stat().st_size / 1e6:6.2f} MB  {path.name}")


def build(folder: Path) -> None:
    """Raises: BuildFailed, also if the folder has something else."""
    folder.mkdir(parents=True, exist_ok=True)
    if other := [path for path in folder.iterdir() if not path.name.endswith((".whl", ".tar.gz"))]:
        raise BuildFailed(f"{folder} is no folder of distributions: it has {other[0].name}")
    for old in folder.iterdir():
        old.unlink()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        source, zookeeper = work / "source", work / "zookeeper"
        copy_source(source)
        ignore = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
        shutil.copytree(ZOOKEEPER, zookeeper, ignore=ignore)
        for tree in (source, zookeeper):
            normalize_tree(tree, int(os.environ[EPOCH]))
            _build("build_sdist", tree, folder)
            _build("build_wheel", tree, folder, KAFKA_ZK_NATIVE="0")
            shutil.rmtree(tree / "build")
        for sdist in folder.glob("*.tar.gz"):
            normalize_sdist(sdist, int(os.environ[EPOCH]))
        for tag in TARGETS:
            _build_native(tag, source, work / tag, folder)
    native = sorted(path for path in folder.glob("*.whl") if "-abi3-" in path.name)
    run(sys.executable, "-m", "abi3audit", "--strict", *native, cwd=folder)


def _build_native(tag: str, source: Path, work: Path, folder: Path) -> None:
    """Raises: BuildFailed if the module does not compile, or needs more than the platform provides."""
    compiler = f"{sys.executable} -m ziglang cc -target {TARGETS[tag]}"
    machine = tag.split("_", 3)[3]
    libraries = work / "lib"
    libraries.mkdir(parents=True)
    libc = _musl(compiler, machine, libraries) if tag.startswith("musllinux") else ""
    _build(
        "build_wheel",
        source,
        work,
        KAFKA_ZK_NATIVE="require",
        CC=compiler,
        LDSHARED=f"{compiler} -shared -s {libc}",
        CFLAGS="-g0 -fno-sanitize=undefined",
        _PYTHON_HOST_PLATFORM=f"linux-{machine}",
    )
    shutil.rmtree(source / "build")
    [wheel] = work.glob("*.whl")
    audit = (sys.executable, "-m", "auditwheel", "repair", "--plat", "auto", "--only-plat", "--ldpaths", libraries)
    run(*audit, "-w", folder, wheel, cwd=work)
    if not list(folder.glob(f"*{tag}*.whl")):
        raise BuildFailed(f"auditwheel rejects {wheel.name} for {tag}")


def _musl(compiler: str, machine: str, folder: Path) -> str:
    """Linker arguments for a C library with the name that musl has in Alpine Linux, so that auditwheel recognises it.

    Zig calls its own musl ``libc.so``, the name of a different file on a machine with glibc.
    """
    name = f"libc.musl-{machine}.so.1"
    (folder / "empty.c").touch()
    run(*compiler.split(), "-s", "-shared", "-nostdlib", f"-Wl,-soname,{name}", "-o", name, "empty.c", cwd=folder)
    return f"-nostdlib -Wl,--no-as-needed {folder / name}"


def _build(hook: str, tree: Path, folder: Path, **variables: str) -> None:
    """Call a PEP 517 hook in a separate process."""
    run(sys.executable, "-c", BUILD, hook, folder, cwd=tree, **variables)


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """Run a command and return its output. Raises: BuildFailed."""
    cwd.mkdir(exist_ok=True)
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BuildFailed(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
