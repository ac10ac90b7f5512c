"""Events of a running fit, and warnings."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

#: An event of a fit: its name under ``"event"``, and numbers that belong to it.
Event: TypeAlias = dict[str, Any]


class DanceWarning(UserWarning):
    """A warning about data or settings; the result is still valid."""


class Listener:
    """A receiver of events: it prints them or calls a function (``verbose``), and collects warnings for the end."""

    def __init__(self, verbose: int | Callable[[Event], object] = 0) -> None:
        self.callback = verbose if callable(verbose) else None
        self.verbose = 0 if callable(verbose) else int(verbose)
        self.messages: list[str] = []
        self._tried = 0
        self._evaluations = 0

    def __call__(self, event: Event) -> None:
        if event["event"] == "warning":
            self.messages.append(event["message"])
        if self.verbose and (line := self._line(event)):
            print(line, file=sys.stderr)
        if self.callback is not None:
            self.callback(event)

    def warn(self) -> None:
        """Issues the collected warnings, each once."""
        for message in dict.fromkeys(self.messages):
            warnings.warn(message, DanceWarning, stacklevel=4)
        self.messages.clear()

    def _line(self, event: Event) -> str | None:
        kind = event["event"]
        if kind == "search":
            self._tried, self._evaluations = 0, event["evaluations"]
            return f"searching {event['evaluations']} settings on {event['points']} of {event['of']} points"
        if kind == "evaluated":
            self._tried += 1
            of = f"/{self._evaluations}" if self._tried <= self._evaluations else ""
            return (
                f"{self._tried:3}{of}  bandwidth {event['bandwidth']:.3f}  shape {event['shape']:.3f}  "
                f"accuracy {event['accuracy']:.4f}  {event['seconds']:.2f} s"
            )
        if kind == "confirming":
            return f"confirming the best {event['candidates']} on all points"
        if kind == "refitting":
            return f"fitting once more on all {event['points']} points"
        if kind == "fetching":
            return f"fetching {event['file']}: {event['done']} of {event['of']} bytes"
        if kind == "embedded":
            return f"embedded {event['done']} of {event['of']}"
        if kind == "round" and self.verbose > 1:
            accuracy = "" if event["accuracy"] is None else f"  accuracy {event['accuracy']:.4f}"
            return f"     round {event['round']}{accuracy}  {event['seconds']:.2f} s"
        return None
