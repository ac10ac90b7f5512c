"""Prints the files of crates/dance that one fit and one query pass through, in the order of first use.

    python3 tools/walk.py            (`make walk`; needs gdb)

The example `fit_and_predict` runs under a debugger, unoptimised. Every function of the crate has a breakpoint that is
removed when it is hit. The fit is everything from the first call of `Fitted::fit` until `calibrate` returns; the query is
everything from the first call of `Dance::score` until `predict` returns. A file counts when one of its functions is hit.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = "crates/dance/src/"
# The most files that a reader should have to open.
LIMITS = {"fit": 35, "query": 22}
# The function whose first call begins a part, and the one whose first return ends it.
ENDS = {"fit": ("Fitted::fit", "Fitted::calibrate"), "query": ("Dance::score", "Dance::predict")}

# What gdb runs: breakpoints on every function of the crate, one report a function.
SCRIPT = """
import gdb, json
gdb.execute("set pagination off"); gdb.execute("set confirm off")
lines, first, last, found = json.load(open({lines!r})), {first!r}, {last!r}, []
# The program is loaded somewhere else than it was linked for.
gdb.execute("starti > /dev/null")
maps = open("/proc/%d/maps" % gdb.selected_inferior().pid)
base = min(int(line.split("-")[0], 16) for line in maps if {program!r} in line)
def loaded(address): return "*0x%x" % (base + int(address, 16))
class Once(gdb.Breakpoint):
    def stop(self):
        found.append(self.place)
        self.enabled = False
        return False
class Gate(gdb.Breakpoint):
    def stop(self):
        if self.opens:
            for one in all_of_them: one.enabled = True
            self.enabled = False
            return False
        return True
all_of_them = []
for place in lines:
    try:
        one = Once(loaded(place["address"]), internal=True)
    except gdb.error:
        continue
    one.place, one.enabled = place, False
    all_of_them.append(one)
for address, opens in [(first, True), (last, False)]:
    gate = Gate(loaded(address), internal=True); gate.opens = opens
# The program stops where the last function begins; the address to which it returns lies on top of the stack.
gdb.execute("continue")
gate.enabled = False
stack = int(gdb.selected_frame().read_register("sp"))
back = int.from_bytes(bytes(gdb.selected_inferior().read_memory(stack, 8)), "little")
gate = Gate("*0x%x" % back, internal=True); gate.opens = False
gdb.execute("continue")
json.dump(found, open({out!r}, "w"))
gdb.execute("kill")
"""


def build():
    """The example with symbols of every function, unoptimised."""
    command = [
        "cargo",
        "build",
        "-p",
        "dance-conformal",
        "--example",
        "fit_and_predict",
        "--message-format",
        "json",
        "--config",
        "profile.dev.package.dance-conformal.opt-level=0",
    ]
    messages = subprocess.run(
        command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.splitlines()
    programs = [json.loads(line).get("executable") for line in messages]
    return Path(next(program for program in reversed(programs) if program))


def functions(program):
    """Address, name and file of every function of the crate, from the program's debug information."""
    text = subprocess.run(
        ["nm", "-C", "--defined-only", program], capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split(maxsplit=2) for line in text.splitlines()]
    code = [
        ("0x" + address, name)
        for address, kind, name in (row for row in rows if len(row) == 3)
        if kind in "tT"
    ]
    own = [(address, name) for address, name in code if re.match(r"<*&?(mut )?dance::", name)]
    addresses = "\n".join(address for address, _ in own)
    places = subprocess.run(
        ["addr2line", "-e", program], input=addresses, capture_output=True, text=True, check=True
    )
    found = []
    for (address, name), place in zip(own, places.stdout.splitlines(), strict=True):
        file = place.split(" ")[0].rsplit(":", 1)[0]
        if SOURCE in file:
            found.append({"address": address, "name": name, "file": file.split(SOURCE, 1)[1]})
    return found


def address_of(name, places):
    """The link-time address of a method."""
    return next(
        place["address"] for place in places if re.search(rf"::{name}(::h[0-9a-f]+)?$", place["name"])
    )


def walk(program, places, first, last):
    """Functions in the order of their first call, from the call of one function until another one returns."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        lines, out, script = folder / "lines.json", folder / "found.json", folder / "script.py"
        lines.write_text(json.dumps(places))
        script.write_text(
            SCRIPT.format(lines=str(lines), out=str(out), first=first, last=last, program=str(program))
        )
        command = ["gdb", "-batch", "-nx", "-x", script, program]
        subprocess.run(command, capture_output=True, check=False)
        return json.loads(out.read_text())


def main():
    program = build()
    places = functions(program)
    failed = False
    for part, ends in ENDS.items():
        first, last = (address_of(name, places) for name in ends)
        files = list(dict.fromkeys(place["file"] for place in walk(program, places, first, last)))
        print(f"one {part}: {len(files)} files (at most {LIMITS[part]})")
        for file in files:
            print("   ", file)
        failed |= len(files) > LIMITS[part]
    sys.exit(failed)


if __name__ == "__main__":
    main()
