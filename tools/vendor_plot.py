#!/usr/bin/env python3
"""Bundles Observable Plot, the parts of it that our charts use, with the licences of everything inside.

    python3 tools/vendor_plot.py

Writes crates/dance-page/assets/plot.js and plot-licences.txt. Needs npm and the npm registry; versions are fixed here.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "crates" / "dance-page" / "assets"
PACKAGES = ["@observablehq/plot@0.6.17", "esbuild@0.28.2"]
ALLOWED = {"ISC", "MIT", "BSD-3-Clause", "Unlicense"}
USED = [
    "plot",
    "line",
    "lineY",
    "areaY",
    "dot",
    "ruleX",
    "ruleY",
    "barX",
    "barY",
    "link",
    "text",
    "tip",
    "pointer",
]


def main() -> int:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "package.json").write_text('{"private": true}')
        subprocess.run(["npm", "install", "--silent", "--no-fund", *PACKAGES], cwd=folder, check=True)
        (folder / "entry.js").write_text(f'export {{{", ".join(USED)}}} from "@observablehq/plot";\n')
        options = ["--bundle", "--minify", "--format=iife", "--global-name=Plot", "--target=es2022"]
        outputs = ["--legal-comments=none", "--metafile=meta.json", "--outfile=plot.js"]
        subprocess.run(["npx", "esbuild", "entry.js", *options, *outputs], cwd=folder, check=True)
        inputs = json.loads((folder / "meta.json").read_text())["outputs"]["plot.js"]["inputs"]
        packages = sorted(
            {
                package(name)
                for name, used in inputs.items()
                if used["bytesInOutput"] and "node_modules" in name
            }
        )
        licences = []
        for name in packages:
            described = json.loads((folder / "node_modules" / name / "package.json").read_text())
            if described["license"] not in ALLOWED:
                print(f"vendor_plot: {name} has the licence {described['license']}", file=sys.stderr)
                return 1
            text = next((folder / "node_modules" / name).glob("LICENSE*")).read_text().strip()
            licences.append(f"{name} {described['version']} ({described['license']})\n\n{text}\n")
        head = "/* Observable Plot and what it needs of D3; see plot-licences.txt. Made by tools/vendor_plot.py. */\n"
        (FOLDER / "plot.js").write_text(head + (folder / "plot.js").read_text())
        (FOLDER / "plot-licences.txt").write_text(("\n" + "-" * 80 + "\n\n").join(licences))
    print(f"vendor_plot: {len(packages)} packages, {(FOLDER / 'plot.js').stat().st_size} bytes")
    return 0


def package(path: str) -> str:
    parts = path.split("node_modules/")[-1].split("/")
    return "/".join(parts[:2]) if parts[0].startswith("@") else parts[0]


if __name__ == "__main__":
    sys.exit(main())
