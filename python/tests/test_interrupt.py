"""Jobs let other threads run, and end when they are interrupted."""

import _thread
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from dance_conformal import DanceClassifier, datasets


def test_an_exception_in_the_callback_ends_the_fit():
    X, y = datasets.clusters(300, classes=3)

    def stop(event):
        raise RuntimeError(f"at {event['event']}")

    with pytest.raises(RuntimeError, match="at "):
        DanceClassifier(verbose=stop).fit(X, y)


def test_ctrl_c_ends_the_fit():
    X, y = datasets.clusters(3000, classes=10, dimensions=32)
    timer = threading.Timer(0.5, _thread.interrupt_main)
    timer.start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        DanceClassifier(evaluations=100_000).fit(X, y)
    assert time.monotonic() - begin < 30


ASKED = """
import numpy as np
from dance_conformal import DanceClassifier, datasets

X, y = datasets.clusters(8000, classes=20, dimensions=32)
kernel = DanceClassifier(method="dance", evaluations=1, kernel={"rounds": 0}, calibration_share=None)
model = kernel.fit(X[:500], y[:500])
many = np.tile(X, (100, 1))
TASKS = {
    "recalibrate": lambda: model.recalibrate(many, np.tile(y, 100)),
    "predict_set": lambda: model.predict_set(many),
    "predict_p": lambda: model.predict_p(many),
    "kneighbors": lambda: model.kneighbors(many),
    "predict_proba": lambda: [model.predict_proba(many) for _ in range(100)],
}
task = TASKS["JOB"]
if "JOB" != "recalibrate":
    model.recalibrate(X, y)
print("begins", flush=True)
try:
    task()
except KeyboardInterrupt:
    # The state from before is kept, and the next job runs.
    assert hasattr(model, "guarantee_") == ("JOB" != "recalibrate")
    if "JOB" == "recalibrate":
        model.recalibrate(X, y)
    assert model.predict_set(X[:10]).shape == (10, 20)
    print("interrupted", flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="a signal to another process is not Ctrl-C there")
@pytest.mark.parametrize("job", ["recalibrate", "predict_set", "predict_p", "kneighbors", "predict_proba"])
def test_ctrl_c_ends_jobs_after_the_fit(job):
    """Every one of these jobs takes far longer than a test may."""
    command = [sys.executable, "-c", ASKED.replace("JOB", job)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "begins\n", process.stderr.read()
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            printed, errors = process.communicate(timeout=20)
        finally:
            process.kill()
    assert printed == "interrupted\n", errors


def test_other_threads_run_meanwhile():
    X, y = datasets.clusters(1500, classes=10, dimensions=32)
    turns = 0
    done = threading.Event()

    def count():
        nonlocal turns
        while not done.wait(0.005):
            turns += 1

    thread = threading.Thread(target=count)
    thread.start()
    DanceClassifier(evaluations=4).fit(X, y)
    done.set()
    thread.join()
    assert turns > 3
