"""Where distributions are built."""

from pathlib import Path

import pytest

from tests.wheels.__main__ import BuildFailed, build


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.whl").touch()
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(BuildFailed, match=r"it has thesis\.tex"):
        build(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"a.whl", "thesis.tex"}
