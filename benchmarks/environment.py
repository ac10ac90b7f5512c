"""Runs a benchmark inside a virtual environment of its own, and dance's engine bench as a subprocess."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".venv" / "benchmarks"
#: The program that is measured.
DANCE = os.environ.get("DANCE", str(ROOT / "target" / "release" / "dance"))
#: Embeddings with labels that are measured on, in the folder that DANCE_DATA names.
FILES = [
    "pets_clip_b32",
    "flowers102_clip_b32",
    "caltech101_clip_b32",
    "dtd_clip_b32",
    "ucf101_clip_b32",
    "clinc150_minilm",
]


def enter(*packages: str) -> None:
    """Restarts the calling script in the benchmarks' environment, with `packages` installed there."""
    python = FOLDER / "bin" / "python"
    if Path(sys.prefix) == FOLDER:
        return
    if not python.exists():
        venv.create(FOLDER, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    os.execv(python, [str(python), *sys.argv])


def dance(*arguments: object, program: str = DANCE) -> dict:
    """What the program prints as JSON."""
    command = [program, *map(str, arguments), "--json", "-q"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def engine(*arguments: object, threads: int) -> dict:
    """Returns the JSON that `cargo bench -p dance-bench --bench engine -- arguments` prints."""
    command = ["cargo", "bench", "--quiet", "-p", "dance-bench", "--bench", "engine", "--"]
    environment = {**os.environ, "DANCE_THREADS": str(threads)}
    output = subprocess.run(
        [*command, *map(str, arguments)], cwd=ROOT, env=environment, check=True, capture_output=True, text=True
    )
    return json.loads(output.stdout.strip().splitlines()[-1])
