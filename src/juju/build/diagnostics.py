"""What the Mojo compiler says, and whose lines it speaks of."""

from __future__ import annotations

import json
import os
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from juju.plan import Kernel

REFUSED = (
    "The Mojo compiler refused the kernel {name!r}: {message}\n"
    "{place}"
    "  text kept in: {kept}\n"
    "This is a defect of juju and not of your function; please report it with that text."
)
CRASHED = "it crashed (status {status})"
REFUSED_PACKAGE = "The Mojo compiler refused the package {name!r}: {message}\n{place}"

_CHAIN = ("function instantiation failed", "call expansion failed")
_TEXT_FORM = re.compile(r"(?P<file>.+?):(?P<line>\d+):(?P<column>\d+): (?P<kind>error|warning|note): (?P<message>.*)")


@dataclass(frozen=True)
class Diagnostic:
    """One message of the compiler. `file` is a real path; `line` is 0 if it belongs to no file."""

    kind: str
    message: str
    file: str = ""
    line: int = 0
    text: str = ""


def parse(output: str, folder: Path) -> list[Diagnostic]:
    """The messages in what `mojo --diagnostic-format json` printed when run in `folder`; other lines are left out."""
    found = [parsed for line in output.splitlines() if (parsed := _parse_line(line)) is not None]
    return [replace(d, file=os.path.realpath(folder / d.file)) if d.file else d for d in found]


def errors(output: str, folder: Path) -> list[list[Diagnostic]]:
    """Each error with the notes that follow it."""
    groups: list[list[Diagnostic]] = []
    current: list[Diagnostic] | None = None
    for diagnostic in parse(output, folder):
        if diagnostic.kind == "error":
            current = [diagnostic]
            groups.append(current)
        elif diagnostic.kind != "note":
            current = None
        elif current is not None:
            current.append(diagnostic)
    return groups


def concerning(groups: Sequence[list[Diagnostic]], file: str) -> list[list[Diagnostic]]:
    """The errors that speak of `file`, a real path."""
    return [group for group in groups if any(_is_in(d, [file]) for d in group)]


def refusal(kernel: Kernel, file: str, groups: Sequence[list[Diagnostic]], output: str, kept: Path) -> str:
    """The text of the error for a kernel; `file` is the real path it was compiled from."""
    message, where = _explain(groups, [file], output)
    place = ""
    if where is not None:
        place += f"  line {where.line}: {_source_line(kernel.text, where.line)}\n"
        if user := user_line(kernel, where.line):
            place += f"  comes from: {user}\n"
    return REFUSED.format(name=kernel.name, message=message, place=place, kept=kept)


def package_refusal(name: str, groups: Sequence[list[Diagnostic]], shown: dict[str, str], output: str) -> str:
    """The text of the error for a package; `shown` gives the name to show for each of its files."""
    message, where = _explain(groups, list(shown), output)
    place = ""
    if where is not None:
        place = f"  {shown[where.file]}:{where.line}: {where.text.strip()}\n"
    return REFUSED_PACKAGE.format(name=name, message=message, place=place).rstrip("\n")


def user_line(kernel: Kernel, line: int) -> str | None:
    """The user's `file:line` that line `line` of the text came from: the nearest one at or before it."""
    lines = sorted(kernel.lines, key=lambda source: source.generated)
    index = bisect_right(lines, line, key=lambda source: source.generated)
    return f"{lines[index - 1].file}:{lines[index - 1].line}" if index else None


def _explain(groups: Sequence[list[Diagnostic]], files: list[str], output: str) -> tuple[str, Diagnostic | None]:
    """The most telling message of the first error, and the place in `files` it speaks of, if any."""
    located = [_tell(group, files) for group in groups if any(_is_in(d, files) for d in group)]
    if located:
        message, where = located[0]
        # The same cause is reported once for each chain of calls that leads to it.
        others = len({(text, place and place.line) for text, place in located}) - 1
        return message + (f" (and {others} more)" if others else ""), where
    if groups:
        return _tell(groups[0], files)
    tail = [line.strip() for line in output.splitlines() if line.strip()][-3:]
    return " / ".join(tail) or "it gave no reason", None


def _tell(group: list[Diagnostic], files: list[str]) -> tuple[str, Diagnostic | None]:
    # An error found while a function is instantiated is a chain of notes that leads down to its cause.
    told = next((i for i, d in enumerate(group) if not d.message.startswith(_CHAIN)), len(group) - 1)
    places = [d for d in group[: told + 1] if _is_in(d, files)] or [d for d in group if _is_in(d, files)][:1]
    return group[told].message, places[-1] if places else None


def _is_in(diagnostic: Diagnostic, files: list[str]) -> bool:
    return diagnostic.line > 0 and diagnostic.file in files


def _source_line(text: str, line: int) -> str:
    lines = text.splitlines()
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""


def _parse_line(line: str) -> Diagnostic | None:
    if line.startswith("{"):
        try:
            raw = json.loads(line)
            place = raw.get("diagnostic") or {}
            location = place.get("location") or {}
            return Diagnostic(
                str(raw["kind"]),
                str(raw["message"]),
                str(place.get("file", "")),
                int(location.get("line", 0)),
                str(place.get("text", "")),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
    if match := _TEXT_FORM.fullmatch(line):
        return Diagnostic(match["kind"], match["message"], match["file"], int(match["line"]))
    return None
