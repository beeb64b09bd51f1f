"""Where the commands write: results to stdout, progress and errors to stderr; colour only on a terminal."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.syntax import Syntax
from rich.text import Text

from juju._progress import _WORDS as WORDS
from juju._quantities import bytes_text as bytes_text
from juju._quantities import seconds_text as seconds_text

if TYPE_CHECKING:
    from juju.build import BuildEvent

LEXERS = {"jaxpr": "haskell", "mlir": "llvm", "mojo": "mojo", "graph": "llvm", "llvm": "llvm", "asm": "gas"}


def out() -> Console:
    """A console on the present stdout."""
    return Console()


def err() -> Console:
    """A console on the present stderr."""
    return Console(stderr=True)


def print_code(text: str, language: str) -> None:
    """Prints program text to stdout: coloured on a terminal, byte for byte elsewhere."""
    console = out()
    text = text if text.endswith("\n") else text + "\n"
    if console.is_terminal and not console.no_color:
        lexer = LEXERS.get(language, language)
        coloured = Syntax("", lexer, theme="ansi_dark", background_color="default").highlight(text)
        console.print(coloured, end="", soft_wrap=True)
    else:
        console.file.write(text)
        console.file.flush()


def note(message: str) -> None:
    """One line of information on stderr."""
    err().print(Text.assemble(("note: ", "cyan"), message), soft_wrap=True)


class BuildProgress:
    """A `progress=` callback that shows on stderr what is being built, and for how long.

    On a terminal it is a spinner with a clock that disappears at the end; elsewhere a line at the start and the end of
    every build, and nothing for what was found in the cache. May be called from several threads.

        with BuildProgress() as progress:
            juju.compile_all(lowered, progress=progress)
    """

    def __init__(self) -> None:
        self.console = err()
        self.live = self.console.is_terminal and not self.console.is_dumb_terminal
        self.lock = threading.Lock()
        self.tasks: dict[tuple[str, str], TaskID] = {}
        self.bars = Progress(
            SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=self.console, transient=True
        )

    def __enter__(self) -> BuildProgress:
        if self.live:
            self.bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self.live:
            self.bars.stop()

    def __call__(self, event: BuildEvent) -> None:
        """Takes one step of a build."""
        text = WORDS.get(event.stage, event.stage).format(name=event.name)
        key = (event.stage, event.name)
        with self.lock:
            if event.state == "start":
                if self.live:
                    self.tasks[key] = self.bars.add_task(text, total=None)
                else:
                    self.console.print(Text(f"{text} ..."), soft_wrap=True)
            elif self.live:
                if key in self.tasks:
                    self.bars.remove_task(self.tasks.pop(key))
            elif event.state in ("done", "failed"):
                self.console.print(Text(f"{text}: {event.state} after {event.seconds:.1f} s"), soft_wrap=True)


class Waiting:
    """Shows `text` with a clock on stderr while the block runs (on a terminal), or once at its start (elsewhere)."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.console = err()
        self.live = self.console.is_terminal and not self.console.is_dumb_terminal
        self.bars = Progress(
            SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=self.console, transient=True
        )

    def __enter__(self) -> Waiting:
        if self.live:
            self.bars.add_task(self.text, total=None)
            self.bars.start()
        else:
            self.console.print(Text(f"{self.text} ..."), soft_wrap=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self.live:
            self.bars.stop()
