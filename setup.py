"""Declares the native module and the project's addresses; everything else is in setup.cfg.

The native module (docs/explanation/native.md) is optional: without a compiler, or on a free-threaded Python, the
installation is pure Python. The environment variable KAFKA_ZK_NATIVE=0 leaves it out of a build; =require fails if it
does not compile.

A release writes the repository's address into setup.cfg (``url``). With it, the description that an index shows has
links to the files of that version, and the project has its other addresses.
"""

import configparser
import os
import re
import runpy
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup

WISH = os.environ.get("KAFKA_ZK_NATIVE") or "1"
IS_FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
if WISH not in ("0", "1", "require") or (WISH == "require" and IS_FREE_THREADED):
    sys.exit(f"KAFKA_ZK_NATIVE is {WISH!r}; it must be 0, 1 or, unless Python is free-threaded, require")
FOLDER = "kafka_zk/native"
files = runpy.run_path(f"{FOLDER}/sources.py")
native = Extension(
    "kafka_zk.native._native",
    [f"{FOLDER}/{name}" for name in files["SOURCES"]],
    depends=["setup.py", f"{FOLDER}/sources.py", *(f"{FOLDER}/{name}" for name in files["HEADERS"])],
    define_macros=[("Py_LIMITED_API", "0x030B0000"), ("KAFKA_ZK_SOURCES", f'"{files["fingerprint"](FOLDER)}"')],
    extra_compile_args=["-std=c11", "-O2", "-Wall", "-Wextra", "-Wno-unused-parameter", "-fvisibility=hidden"],
    py_limited_api=True,
    optional=WISH != "require",
)
left_out = WISH == "0" or IS_FREE_THREADED
options = {} if left_out else {"bdist_wheel": {"py_limited_api": "cp311"}}

RELATIVE_LINK = re.compile(r"(?P<image>!?)(?P<words>\[[^\]]*\])\((?![a-z]+:|#)(?P<path>[^)\s]+)\)")


def description(address: str, version: str) -> str:
    """README for readers who are not in the repository."""

    def absolute(link: re.Match[str]) -> str:
        kind = "raw" if link["image"] else "blob"
        return f"{link['image']}{link['words']}({address}/{kind}/v{version}/{link['path']})"

    text = Path("README.md").read_text(encoding="utf-8")
    return RELATIVE_LINK.sub(absolute, text) if address else text


def addresses(address: str) -> dict[str, str]:
    pages = {"Documentation": "tree/main/docs", "Changelog": "blob/main/CHANGELOG.md", "Issues": "issues"}
    return {"Source": address, **{name: f"{address}/{page}" for name, page in pages.items()}} if address else {}


about = configparser.ConfigParser()
about.read("setup.cfg", encoding="utf-8")
url = about["metadata"].get("url", "")
[version] = re.findall(r'^__version__ = "(.+)"', Path("kafka_zk/__init__.py").read_text(encoding="utf-8"), re.MULTILINE)
setup(
    ext_modules=[] if left_out else [native],
    options=options,
    long_description=description(url, version),
    project_urls=addresses(url),
)
