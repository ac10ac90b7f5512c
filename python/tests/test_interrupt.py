"""A fit gives other threads their turn, and ends when it is told to."""

import _thread
import threading
import time

import pytest

from dance_conformal import DanceClassifier, datasets


def test_an_exception_in_the_callback_ends_the_fit():
    X, y = datasets.clusters(300, classes=3)

    def stop(event):
        raise RuntimeError(f"at {event['event']}")

    with pytest.raises(RuntimeError, match="at "):
        DanceClassifier(callback=stop).fit(X, y)


def test_ctrl_c_ends_the_fit():
    X, y = datasets.clusters(3000, classes=10, dimensions=32)
    timer = threading.Timer(0.5, _thread.interrupt_main)
    timer.start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        DanceClassifier(evaluations=100_000).fit(X, y)
    assert time.monotonic() - begin < 30


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
