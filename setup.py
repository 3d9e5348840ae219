"""Declares the native module; everything else about the project is in setup.cfg. Read: docs/explanation/native.md.

It is optional: without a compiler, or on a free-threaded Python, wheels are pure Python. The environment variable
KAFKA_ZK_NATIVE=0 leaves it out of a build; =require fails if it does not compile.
"""

import os
import runpy
import sys
import sysconfig

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

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


class BuildOrLeaveOut(build_ext):
    """If the module does not compile, the wheel's name says that it is for every platform."""

    def run(self) -> None:
        super().run()
        wheel = self.distribution.get_command_obj("bdist_wheel", create=False)
        if wheel and not os.path.exists(os.path.join(self.build_lib, self.get_ext_filename(native.name))):
            self.distribution.ext_modules = []
            wheel.root_is_pure = True


left_out = WISH == "0" or IS_FREE_THREADED
options = {} if left_out else {"bdist_wheel": {"py_limited_api": "cp311"}}
setup(ext_modules=[] if left_out else [native], options=options, cmdclass={"build_ext": BuildOrLeaveOut})
