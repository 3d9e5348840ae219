"""There are no import cycles in the product and the tests, not even for types."""

from graphlib import CycleError, TopologicalSorter

import pytest

from tests.import_graph import AT_THE_TOP, imports, modules_below

STILL_THERE: dict[tuple[str, str], str] = {}
"""Imports that close a cycle -> the reason. An entry whose import is gone fails, so that it is removed."""

Graph = dict[str, set[str]]


@pytest.fixture(scope="module")
def graph() -> Graph:
    """The graph without packages: they import nothing, except public names for type checkers."""
    paths = modules_below("docker", "examples", "kafka_zk", "tests", *AT_THE_TOP)
    modules = {name: path for name, path in paths.items() if path.name != "__init__.py"}
    return {name: modules.keys() & set(imports(path.read_text(), modules)) for name, path in modules.items()}


def circle(graph: Graph) -> list[str]:
    """The modules of a cycle, with the first repeated as the last; empty if there is no cycle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def without(graph: Graph, *edges: tuple[str, str]) -> Graph:
    return {name: {each for each in imported if (name, each) not in edges} for name, imported in graph.items()}


def test_modules_import_in_no_circle(graph: Graph) -> None:
    assert circle(without(graph, *STILL_THERE)) == []


@pytest.mark.parametrize("edge", STILL_THERE)
def test_a_circle_that_is_excused_is_still_there(graph: Graph, edge: tuple[str, str]) -> None:
    others = [each for each in STILL_THERE if each != edge]
    assert set(edge) <= set(circle(without(graph, *others))), f"{edge} needs no excuse any more"


def test_a_circle_is_found_however_it_is_imported() -> None:
    sources = {
        "a.one": "if TYPE_CHECKING:\n    from a import two",
        "a.two": "def f():\n    import a.three",
        "a.three": "from a.one import X",
        "a.four": "from a.one import X",
    }
    found = circle({name: set(imports(text, sources)) for name, text in sources.items()})
    assert set(found) == {"a.one", "a.two", "a.three"}
