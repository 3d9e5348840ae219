"""Combines the page's modules into one script, because a page that is opened from a file cannot import other files.
Pure.

It reads the modules in the style of ``static/``: imports of names from ``./module.js``, each on one line, and exports
of constants, functions and classes where they are defined.
"""

import re
from collections.abc import Iterator, Mapping

_IMPORT = re.compile(r'^import \{ ([\w, ]+) \} from "\./(\w+\.js)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:const|function|async function|class) (\w+))", re.MULTILINE)
_OTHER = re.compile(r"^(?:import|export) .*", re.MULTILINE)
_ENDS = re.compile("</script|<script|<!--", re.IGNORECASE)
"""Text that would end a script inside a page, or hide its end."""


def bundle(modules: Mapping[str, str], first: str) -> str:
    """One script that does the same as the module ``first``, without comment lines.

    Args:
        modules: the sources of all modules, by file name.
    Raises: ValueError if a module has another style; KeyError if one is missing.
    """
    parts = (_part(name, modules[name]) for name in _in_order(modules, first))
    script = "\n".join(('"use strict";', "const modules = {};", *parts))
    if (found := _ENDS.search(script)) is not None:
        raise ValueError(f"a module contains {found[0]}, which would end the script of the page")
    return script


def _in_order(modules: Mapping[str, str], first: str) -> Iterator[str]:
    """Each module after those that it imports."""
    done: dict[str, bool] = {}

    def visit(name: str) -> Iterator[str]:
        if name in done:
            if not done[name]:
                raise ValueError(f"{name} imports itself")
            return
        done[name] = False
        for found in _IMPORT.finditer(modules[name]):
            yield from visit(found[2])
        done[name] = True
        yield name

    yield from visit(first)


def _part(name: str, text: str) -> str:
    body = _IMPORT.sub(lambda found: f'const {{ {found[1].replace(" as ", ": ")} }} = modules["{found[2]}"];', text)
    exported = [found[2] for found in _EXPORT.finditer(body)]
    body = _EXPORT.sub(r"\1", body)
    if (other := _OTHER.search(body)) is not None:
        raise ValueError(f"{name} has a line that cannot be bundled: {other[0]}")
    lines = "\n".join(line for line in body.splitlines() if line and not line.startswith("//"))
    return f'modules["{name}"] = (() => {{\n{lines}\nreturn {{ {", ".join(exported)} }};\n}})();'
