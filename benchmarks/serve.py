"""`dance serve` under load, beside what a user would write instead (FastAPI, scikit-learn, MAPIE), in one run.

    python3 benchmarks/serve.py [path to dance]
    DATA=embeddings.npz python3 benchmarks/serve.py
    MODEL=model.dance POINTS=test.npz python3 benchmarks/serve.py

Without DATA and MODEL it is the data set that ships. POINTS are those that are asked about; where they have labels, the other server is
fitted on them. Needs `wrk` (Debian's package). THREADS (2), SECONDS_EACH (10), ROUNDS (3), REQUESTS (1,000,000) and CROWD (10,000) in the environment set its
size. Prints CPU time per single-point request against a point of `dance predict` in bulk, the median of rounds that alternate; latencies at half of
the highest load, memory over many requests, what 10,000 connections at once get, and requests per second of both servers. CPU time is read from /proc, so other work on
the machine changes it less than time that passes; but caches are shared.
"""

import asyncio
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from pathlib import Path

import environment

environment.enter("numpy", "scikit-learn", "mapie", "fastapi", "uvicorn")

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("DATA", ROOT / "crates" / "dance-cli" / "data" / "wordnet_minilm.npz"))
MODEL, POINTS = os.environ.get("MODEL"), os.environ.get("POINTS")
DANCE = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "target" / "release" / "dance"
CONNECTIONS, SECONDS = 64, int(os.environ.get("SECONDS_EACH", "10"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
REQUESTS = int(os.environ.get("REQUESTS", "1000000"))
CROWD = int(os.environ.get("CROWD", "10000"))
THREADS = ["--threads", os.environ.get("THREADS", "2")]  # of the program and of the server alike
TICK = os.sysconf("SC_CLK_TCK")

PEER = """
import sys, numpy as np
from fastapi import FastAPI
from mapie.classification import SplitConformalClassifier
from sklearn.linear_model import LogisticRegression
data = np.load(sys.argv[1])
X, y = data["embeddings"].astype(np.float32), data["labels"]
order = np.random.default_rng(0).permutation(len(X))
fit, calibrate = order[: len(X) * 2 // 5], order[len(X) * 2 // 5 : len(X) * 4 // 5]
model = SplitConformalClassifier(LogisticRegression(max_iter=300).fit(X[fit], y[fit]), confidence_level=0.9, prefit=True)
model.conformalize(X[calibrate], y[calibrate])
app = FastAPI()
@app.post("/v1/predict")
def predict(body: dict):
    best, sets = model.predict_set(np.array([body["embedding"]], dtype=np.float32))
    return {"prediction": str(best[0]), "set": [str(label) for label in np.flatnonzero(sets[0, :, 0])]}
import uvicorn
uvicorn.run(app, port=int(sys.argv[2]), log_level="warning")
"""

LUA = """
local file = io.open(os.getenv("BODIES")); local bodies = {}
for line in file:lines() do bodies[#bodies + 1] = line end
wrk.method = "POST"; wrk.headers["Content-Type"] = "application/json"
local next = 0
request = function() next = next % #bodies + 1; return wrk.format(nil, nil, nil, bodies[next]) end
done = function(summary, latency)
  io.write(string.format("JSON %d %d %d %f %f\\n", summary.requests, summary.errors.status + summary.errors.read + summary.errors.write + summary.errors.connect + summary.errors.timeout, summary.duration, latency:percentile(50), latency:percentile(99)))
end
"""


def cpu(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def memory(process: int) -> float:
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process}/status").read_text())[1]) / 1024


def wrk(url: str, folder: Path, connections: int, seconds: int) -> dict:
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(folder / "post.lua"), f"{url}/v1/predict"]
    out = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "BODIES": str(folder / "bodies")}).stdout
    requests, errors, microseconds, median, last = (float(part) for part in re.search(r"JSON (.*)", out)[1].split())
    return {"requests": requests, "errors": errors, "per_second": requests / microseconds * 1e6, "p50_ms": median / 1e3, "p99_ms": last / 1e3}


def crowd(url: str, body: bytes, count: int) -> tuple[Counter, float]:
    """Statuses of `count` requests, each on a connection of its own, all open before the first is sent; and the seconds."""
    host, port = url.removeprefix("http://").split(":")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, count + 1024), hard))
    request = b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
    request += b"Content-Length: %d\r\n\r\n%s" % (len(body), body)

    async def all_of_them() -> Counter:
        gate = asyncio.Semaphore(200)  # that connect at the same moment

        async def connect():
            async with gate:
                return await asyncio.open_connection(host, int(port))

        async def ask(reader, writer) -> str:
            try:
                writer.write(request)
                await writer.drain()
                answer = await reader.read()
                return answer.split(b" ", 2)[1].decode() if answer else "nothing"
            except OSError as error:
                return type(error).__name__
            finally:
                writer.close()

        open_ones = await asyncio.gather(*(connect() for _ in range(count)))
        return Counter(await asyncio.gather(*(ask(*one) for one in open_ones)))

    begin = time.monotonic()
    return asyncio.run(all_of_them()), time.monotonic() - begin


def wait(url: str, path: str) -> None:
    for _ in range(600):
        try:
            urllib.request.urlopen(url + path, timeout=1)
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.1)
    sys.exit(f"{url} did not start")


def bulk(model: Path, folder: Path, points: np.ndarray) -> float:
    """Seconds of CPU per point: of many less those of few, so that reading the model falls out."""
    cost = {}
    for times in (1, 11):
        many = folder / f"many{times}.npz"
        if not many.exists():
            np.savez(many, embeddings=np.tile(points, (times, 1)))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([DANCE, "predict", model, many, "-o", folder / "sets.jsonl", "--quiet", *THREADS], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cost[times] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (cost[11] - cost[1]) / (10 * len(points))


def middle(values: list[float]) -> str:
    micro = sorted(1e6 * value for value in values)
    return f"{statistics.median(micro):.0f} µs ({micro[0]:.0f} to {micro[-1]:.0f})"


def main() -> None:
    if (MODEL is None) != (POINTS is None):
        sys.exit("MODEL and POINTS go together")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "post.lua").write_text(LUA)
        if MODEL:
            model, test, labelled = Path(MODEL), Path(POINTS), Path(POINTS)
        else:
            model, test, labelled = folder / "model.dance", folder / "test.npz", DATA
            subprocess.run([DANCE, "fit", DATA, "-o", model, "--split", "0.4,0.4,0.2", "--test-out", test, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        points = np.load(test)["embeddings"].astype(np.float32)
        (folder / "bodies").write_text("".join(json.dumps({"embedding": [float(str(value)) for value in row]}) + "\n" for row in points))
        journal = ["--journal", folder / "journal.jsonl"]
        server = subprocess.Popen([DANCE, "serve", model, "--port", "0", "--json", "--quiet", *journal, *THREADS], stdout=subprocess.PIPE, text=True)
        peer = other = None
        try:
            url = json.loads(server.stdout.readline())["url"]
            wrk(url, folder, CONNECTIONS, 2)
            in_bulk, each, loads = [], [], []
            for _ in range(ROUNDS):
                in_bulk.append(bulk(model, folder, points))
                before = cpu(server.pid)
                loads.append(wrk(url, folder, CONNECTIONS, SECONDS))
                each.append((cpu(server.pid) - before) / loads[-1]["requests"])
            full = sorted(loads, key=lambda load: load["per_second"])[ROUNDS // 2]
            batches = urllib.request.urlopen(f"{url}/metrics").read().decode()
            asked, together = (float(re.search(rf"^dance_batch_points_{name} (\S+)", batches, re.M)[1]) for name in ("sum", "count"))
            # Half the load: as many connections as keep half of the highest rate busy.
            half, connections = None, 1
            for connections in (1, 2, 3, 4, 6, 8, 12, 16):
                half = wrk(url, folder, connections, max(3, SECONDS // 3))
                if half["per_second"] >= full["per_second"] / 2:
                    break
            sizes = [memory(server.pid)]
            done = 0
            while done < REQUESTS:
                done += wrk(url, folder, CONNECTIONS, SECONDS)["requests"]
                sizes.append(memory(server.pid))
            crowded, crowded_seconds = crowd(url, (folder / "bodies").read_text().splitlines()[0].encode(), CROWD)
            sizes.append(memory(server.pid))
            if "labels" in np.load(labelled):
                port = 18431
                (folder / "peer.py").write_text(PEER)
                peer = subprocess.Popen([sys.executable, folder / "peer.py", labelled, str(port)])
                wait(f"http://127.0.0.1:{port}", "/docs")
                wrk(f"http://127.0.0.1:{port}", folder, CONNECTIONS, 2)
                other = wrk(f"http://127.0.0.1:{port}", folder, CONNECTIONS, SECONDS)
        finally:
            for process in (server, peer):
                if process is not None:
                    process.terminate()
                    process.wait()
    ratios = sorted(one / many for one, many in zip(each, in_bulk))
    ratio = statistics.median(each) / statistics.median(in_bulk)
    print(f"bulk: {middle(in_bulk)} of CPU per point; a request with one point from {CONNECTIONS} connections: {middle(each)}")
    print(f"that is {ratio:.2f} times as much ({ratios[0]:.2f} to {ratios[-1]:.2f} by round; wanted: at most 1.5)")
    print(f"together: {asked / together:.1f} points per batch; errors {sum(load['errors'] for load in loads):.0f}")
    print(f"highest load: {full['per_second']:.0f} requests/s, median {full['p50_ms']:.2f} ms, p99 {full['p99_ms']:.2f} ms")
    print(f"half of it ({connections} connections): {half['per_second']:.0f} requests/s, median {half['p50_ms']:.2f} ms, p99 {half['p99_ms']:.2f} ms, {half['p99_ms'] / half['p50_ms']:.1f} times (wanted: below 5)")
    print(f"memory over {done:.0f} requests: {', '.join(f'{size:.0f}' for size in sizes[:: max(1, len(sizes) // 8)])} MiB")
    told = ", ".join(f"{times} × {status}" for status, times in sorted(crowded.items()))
    print(f"{CROWD} connections at once: {told} in {crowded_seconds:.1f} s (503: come again)")
    if other is None:
        print("FastAPI, scikit-learn and MAPIE: not asked, since the points have no labels to fit on")
    else:
        print(f"FastAPI, scikit-learn and MAPIE: {other['per_second']:.0f} requests/s, p99 {other['p99_ms']:.1f} ms; dance serves {full['per_second'] / other['per_second']:.1f} times as many (wanted: at least 10)")


if __name__ == "__main__":
    main()
