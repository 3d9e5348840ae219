"""Damaged records for the C of the native module, compiled alone with AddressSanitizer and UBSan, then for coverage.

python -m tests.fuzz_native --seconds 3600 --seed 0
"""

import argparse
import tempfile
from pathlib import Path

from tests.fuzz_native.campaign import covered_percent, fuzz


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz_native", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fuzz-native-") as name:
        runs, accepted = fuzz(Path(name), options.seconds, options.seed)
        print(f"{runs:,} inputs, {accepted:,} of them accepted, no sanitizer complained")
        for file, percent in covered_percent(Path(name), options.seed).items():
            print(f"{file}: {percent:.1f} % of the lines ran")


if __name__ == "__main__":
    main()
