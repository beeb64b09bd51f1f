"""Progress of first calls: a status line on a terminal, one sentence for the rare long steps elsewhere."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from juju.build import BuildEvent

_WORDS = {
    "kernel": "compiling {name}",
    "package": "compiling the helper package {name}",
    "trampoline": "building the launch graph (once per machine, about 15 s)",
    "graph": "compiling the MAX graph of {name}",
}


class StatusLine:
    """Shows running steps on a terminal's stderr, and erases itself when they are done."""

    def __init__(self) -> None:
        self._status: Any = None
        self._running: dict[tuple[str, str], str] = {}
        self._lock = threading.Lock()

    def __call__(self, event: BuildEvent) -> None:
        key = (event.stage, event.name)
        with self._lock:
            if event.state == "start":
                self._running[key] = _WORDS.get(event.stage, event.stage).format(name=event.name)
            else:
                self._running.pop(key, None)
            self._show()

    def _show(self) -> None:
        text = "juju: " + ", ".join(self._running.values())
        if self._running and self._status is None:
            from rich.console import Console

            self._status = Console(stderr=True).status(text)
            self._status.start()
        elif self._running:
            self._status.update(text)
        elif self._status is not None:
            self._status.stop()
            self._status = None


def say_once_per_machine(event: BuildEvent) -> None:
    """Without a terminal only the step that takes long, and happens once, is worth a line."""
    if event.stage == "trampoline" and event.state == "start":
        print(f"juju: {_WORDS['trampoline']}", file=sys.stderr, flush=True)


def default_progress() -> Any:
    """What first calls report to."""
    return StatusLine() if sys.stderr.isatty() else say_once_per_machine
