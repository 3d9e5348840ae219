"""The command that measures prose (``tests.prose``)."""

from tests.prose import Prose, measure, sources

SOURCE = '''"""Two words."""

LIMIT = 3  # a trailing comment
"""Three more words."""


def public():
    # a line of its own
    return "not prose"


def _private():
    pass
'''


def test_docstrings_comments_and_descriptions_are_prose() -> None:
    assert measure(SOURCE) == Prose(code_lines=5, lines=3, words=2 + 3 + 3 + 5, public_count=1, undocumented_count=1)


def test_modules_add_up() -> None:
    assert (measure(SOURCE) + measure(SOURCE)).words == 2 * measure(SOURCE).words


def test_the_working_tree_has_modules() -> None:
    assert next(sources(None))
