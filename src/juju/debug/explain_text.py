"""An explanation as text, in spans with a style each, so that a terminal can colour what a file has plain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from juju._quantities import bytes_text, seconds_text
from juju.debug.explain import Array, Explanation, Limit, Note, Step
from juju.mojo.text import short_path

Span = tuple[str, str]
"""A piece of text, and how it looks: a style of Rich's, or nothing."""

LABEL = 10
NO_KERNEL = "no kernel: the results are arguments, captured constants, or empty"
TOGETHER = "{count}, which need nothing of each other, in one launch"
LEAST = 1e-6
NOTHING = "under 1 us, less than a call costs"


def paragraphs(explanation: Explanation) -> Iterator[Span]:
    """The whole text, with line ends in it."""
    yield from _head(explanation)
    for step in explanation.steps:
        yield "\n", ""
        yield from _step(step, explanation)
    if explanation.passed:
        yield "\n", ""
        for result, source in explanation.passed:
            yield from _row("as it is", [(f"{result} is {source}", "")])


def _head(explanation: Explanation) -> Iterator[Span]:
    kernels = len(explanation.kernels)
    customs = len(explanation.steps) - kernels
    parts = [_count(kernels, "kernel")] if kernels else []
    parts += [_count(customs, "custom operation")] if customs else []
    if explanation.scratch:
        scratch = sum(array.bytes for array in explanation.scratch)
        parts.append(f"{bytes_text(scratch)} of scratch memory between them")
    limits = [step.limit for step in explanation.steps if step.limit is not None]
    if len(limits) > 1:
        total = sum(limit.seconds for limit in limits)
        parts.append(f"limit {seconds_text(total) if total >= LEAST else NOTHING}")
    yield explanation.name, "bold"
    yield f": {', '.join(parts) or NO_KERNEL}\n", ""


def _step(step: Step, explanation: Explanation) -> Iterator[Span]:
    steps = explanation.steps
    which = f"{step.kind} {step.number} of {len(steps)}" if len(steps) > 1 else step.kind
    yield f"{which}: ", ""
    yield f"{step.name}\n", "bold cyan"
    generated = step.kind == "kernel" and not step.calls
    for number, (file, lines) in enumerate(groupby(step.lines, lambda line: line.file)):
        width = max(len(str(line.line)) for line in step.lines)
        label = "fuses" if generated else "from"
        yield from _row(label if number == 0 else "", [(short_path(file), "dim")])
        for line in lines:
            yield from _row("", [(f"{line.line:>{width}}  ", "dim"), (line.text, "")])
            if line.operations:
                yield from _row("", [(f"{'':{width}}    {' '.join(line.operations)}", "green")])
    if step.calls:
        yield from _row("calls", [(step.calls, "")])
    if len(step.loops) > 1:
        yield from _row("nests", [(TOGETHER.format(count=len(step.loops)), "")])
    for number, loops in enumerate(dict.fromkeys(map(str, step.loops))):
        yield from _row("loops" if number == 0 else "", [(loops, "")])
    yield from _arrays("reads", step.reads, steps)
    yield from _arrays("writes", step.writes, steps)
    for note in step.notes:
        yield from _note(note)
    if step.kind == "kernel":
        operations = "" if step.calls else f"{step.operations:,} operations, "
        yield from _row("work", [(f"{operations}{bytes_text(step.bytes)} moved", "")])
    if step.limit is not None:
        yield from _row("limit", _limit(step.limit))


def _arrays(label: str, arrays: Sequence[Array], steps: Sequence[Step]) -> Iterator[Span]:
    names = max((len(array.name) for array in arrays), default=0)
    types = max((len(array.type) for array in arrays), default=0)
    for number, array in enumerate(arrays):
        made = f"  from {steps[array.step - 1].kind} {array.step}" if array.step is not None else ""
        text = f"{array.name:<{names}}  {array.type:<{types}}  {bytes_text(array.bytes):>8}{made}"
        yield from _row(label if number == 0 else "", [(text, "")])


def _note(note: Note) -> Iterator[Span]:
    style = "yellow" if note.kind == "waits" else ""
    lines = []
    for (file, line), values in groupby(note.values, lambda value: value[1:]):
        names = ", ".join(name for name, _, _ in values)
        lines.append(f"{names} of {short_path(file)}:{line}" if file else names)
    yield from _row("waits for" if note.kind == "waits" else "again", [("; ".join(lines), style)])
    yield from _row("", [(f"  {note.reason}", "")])


def _limit(limit: Limit) -> list[Span]:
    if limit.seconds < LEAST:
        return [(NOTHING, "")]
    other = f"operations alone: {seconds_text(limit.computing)}"
    if limit.bound == "operations":
        other = f"memory alone: {seconds_text(limit.moving)}"
    return [(seconds_text(limit.seconds), "bold"), (f" on this machine, bound by {limit.bound} ({other})", "")]


def _row(label: str, spans: Sequence[Span]) -> Iterator[Span]:
    yield f"  {label:<{LABEL}}", "dim"
    yield from spans
    yield "\n", ""


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
