#!/usr/bin/env python3
"""Lints every crate without its default features, and with each feature alone; warnings are errors.

    python3 tools/check_features.py

A feature that only works beside another, or code that only a feature uses, shows in no other build.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    metadata = json.loads(
        subprocess.run(
            ["cargo", "metadata", "--format-version", "1", "--locked", "--no-deps"],
            cwd=ROOT,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
    )
    runs = 0
    for package in metadata["packages"]:
        features = [feature for feature in sorted(package["features"]) if feature != "default"]
        for chosen in [None, *features] if features else []:
            command = [
                "cargo",
                "clippy",
                "--quiet",
                "--locked",
                "-p",
                package["name"],
                "--no-default-features",
            ]
            command += ["--features", chosen] if chosen else []
            print("+", " ".join(command), flush=True)
            result = subprocess.run([*command, "--", "-D", "warnings"], cwd=ROOT)
            runs += 1
            if result.returncode:
                print(
                    f"{package['name']} does not build cleanly "
                    f"{'with the feature ' + chosen + ' alone' if chosen else 'without features'}",
                    file=sys.stderr,
                )
                return 1
    print(f"check_features: {runs} builds, no warnings")
    return 0


if __name__ == "__main__":
    sys.exit(main())
