"""The version of a Java is found without running it."""

from pathlib import Path

from kafka_zk.embedded.java_release import version_in_release_file


def java_in(folder: Path, release: str | None) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.touch()
    if release is not None:
        (folder / "release").write_text(release)
    return path


def test_the_release_file_of_its_folder_says_which_version_it_is(tmp_path: Path) -> None:
    path = java_in(tmp_path, 'IMPLEMENTOR="Debian"\nJAVA_RUNTIME_VERSION="17.0.15+6"\nJAVA_VERSION="17.0.15"\n')
    assert version_in_release_file(path) == "17.0.15"


def test_links_to_a_java_are_followed(tmp_path: Path) -> None:
    path = java_in(tmp_path / "jdk", 'JAVA_VERSION="21"\n')
    link = tmp_path / "java"
    link.symlink_to(path)
    assert version_in_release_file(link) == "21"


def test_without_such_a_file_nothing_is_said(tmp_path: Path) -> None:
    assert version_in_release_file(java_in(tmp_path / "a", None)) is None
    assert version_in_release_file(java_in(tmp_path / "b", "IMPLEMENTOR=me\n")) is None
    assert version_in_release_file(Path("/java")) is None
