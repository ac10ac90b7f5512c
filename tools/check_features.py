#!/usr/bin/env python3
"""Lints the crates without their default features, and published crates with each feature alone; warnings are errors.

    python3 tools/check_features.py

A feature that only works beside another, or code that only a feature uses, shows in no other build. A feature that is the
whole default is what every other build has. All crates go without features together: none turns on a feature of another
(but for the fuzz targets, which are left out), and one build shares most of its dependencies with `cargo clippy --workspace`.
"""

from __future__ import annotations

import subprocess
import sys

from cargo_metadata import ROOT, cargo_metadata


def main() -> int:
    metadata = cargo_metadata("--no-deps")
    builds = [["--workspace", "--exclude", "dance-fuzz"]]
    for package in metadata["packages"]:
        features: dict[str, list[str]] = package["features"]
        for feature in sorted(set(features) - {"default"}):
            published = package["publish"] is None or package["publish"]
            if published and features.get("default") != [feature]:
                builds.append(["-p", package["name"], "--features", feature])
    for build in builds:
        command = ["cargo", "clippy", "--quiet", "--locked", *build, "--no-default-features"]
        print("+", " ".join(command), flush=True)
        if subprocess.run([*command, "--", "-D", "warnings"], cwd=ROOT).returncode:
            print(
                "check_features: the features named do not build cleanly without the others", file=sys.stderr
            )
            return 1
    print(f"check_features: {len(builds)} build(s), no warnings")
    return 0


if __name__ == "__main__":
    sys.exit(main())
