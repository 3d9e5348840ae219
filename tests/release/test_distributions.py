"""Two builds of an sdist differ in times and owners; the normalised archives do not."""

import io
import tarfile
from pathlib import Path

import pytest

from tests.release import distributions
from tests.release.distributions import NotReproducible, build, digests, installable, repacked, require_equal

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


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Records the commands of a build without running them. ``build`` and ``auditwheel`` each create a file."""
    ran: list[list[str]] = []

    def run(command: list[str], environ: dict[str, str]) -> None:
        ran.append(command)
        assert environ["SOURCE_DATE_EPOCH"] == "1800000000"
        if "build" in command:
            target = Path(command[command.index("--outdir") + 1])
            (target / "kafka_zk-1.tar.gz").write_bytes(sdist(mtime=1, uid=1, mode=0o600))
            if "--sdist" not in command:
                (target / "kafka_zk-1-cp311-abi3-linux_x86_64.whl").touch()
        if "auditwheel" in command:
            target = Path(command[command.index("--wheel-dir") + 1])
            (target / "kafka_zk-1-cp311-abi3-manylinux_2_17_x86_64.whl").touch()
        if "make" in command:
            dist = Path(command[2], "target", "dist")
            dist.mkdir(parents=True)
            for system in ("manylinux_2_17_x86_64", "musllinux_1_2_aarch64"):
                (dist / f"kafka_zk-1-cp311-abi3-{system}.whl").touch()

    monkeypatch.setattr(distributions, "_run", run)
    monkeypatch.setattr(distributions, "committed_at", lambda _: "1800000000")
    return ran


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    return folder


def test_a_wheel_of_this_machine_is_given_a_platform_that_an_index_takes(
    project: Path, commands: list[list[str]], tmp_path: Path
) -> None:
    found = build(project, tmp_path / "made")
    assert [path.name for path in found] == ["kafka_zk-1-cp311-abi3-manylinux_2_17_x86_64.whl", "kafka_zk-1.tar.gz"]


def test_wheels_of_all_systems_take_the_place_of_this_machines(
    project: Path, commands: list[list[str]], tmp_path: Path
) -> None:
    (project / "Makefile").write_text("wheels: prepared\n")
    found = build(project, tmp_path / "made")
    assert ["make", "-C", str(project), "wheels"] in commands
    assert [path.name.split("-")[-1] for path in found] == [
        "manylinux_2_17_x86_64.whl",
        "musllinux_1_2_aarch64.whl",
        "1.tar.gz",
    ]


def test_both_distributions_are_built(project: Path, commands: list[list[str]], tmp_path: Path) -> None:
    jars = project / "docker" / "zookeeper-wheel"
    jars.mkdir(parents=True)
    (jars / "pyproject.toml").touch()
    build(project, tmp_path / "made")
    assert [Path(command[-1]) for command in commands if "build" in command] == [project, jars]


def test_of_each_distribution_one_wheel_is_for_this_machine() -> None:
    ours = ["a-1-py3-none-any.whl", "c-1-py3-none-any.whl"]
    files = [*ours, "a-1-py2-none-any.whl", "a-1.tar.gz", "b-1-cp311-abi3-win_amd64.whl"]
    assert [path.name for path in installable(list(map(Path, files)))] == ours
