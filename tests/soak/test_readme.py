"""README's commands, top to bottom, in a fresh clone, with everything installed by pip; the table is in the output."""

import pytest

from tests import readme

pytestmark = [pytest.mark.integration, pytest.mark.soak]


def test_a_newcomer_can_type_what_readme_says() -> None:
    """And always reads within a second what goes on."""
    assert readme.main(["--longest-silence", "1"]) == 0
