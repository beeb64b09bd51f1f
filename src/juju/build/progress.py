"""What a build tells its caller while it runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

Stage = Literal["package", "kernel", "trampoline", "graph"]
State = Literal["start", "done", "hit", "failed"]


@dataclass(frozen=True)
class BuildEvent:
    """One step of a build: `stage` says what is built, `name` which one, `seconds` how long it took so far."""

    stage: Stage
    name: str
    state: State
    seconds: float = 0.0


Progress = Callable[[BuildEvent], None]

_reporting = threading.RLock()


def report(progress: Progress | None, stage: Stage, name: str, state: State, seconds: float = 0.0) -> None:
    """Calls `progress`, one event at a time even if several threads build."""
    if progress is not None:
        with _reporting:
            progress(BuildEvent(stage, name, state, seconds))


@contextmanager
def step(progress: Progress | None, stage: Stage, name: str) -> Iterator[None]:
    """Reports the start and the end of the block it encloses."""
    report(progress, stage, name, "start")
    began = time.perf_counter()
    try:
        yield
    except BaseException:
        report(progress, stage, name, "failed", time.perf_counter() - began)
        raise
    report(progress, stage, name, "done", time.perf_counter() - began)
