"""What cargo knows about the workspace, for the checks beside this file."""

import json
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def cargo_metadata(*options: str) -> Any:
    """The JSON of `cargo metadata --locked` with these options."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", *options]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout)
