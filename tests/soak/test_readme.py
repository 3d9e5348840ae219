"""README's commands from top to bottom, in a fresh clone, with everything installed by pip; the output contains the
table."""

import pytest

from tests import readme

pytestmark = [pytest.mark.integration, pytest.mark.soak]


def test_a_newcomer_can_type_what_readme_says() -> None:
    """No command is silent for more than a second."""
    assert readme.main(["--longest-silence", "1"]) == 0
