"""Long lines, broken as `mojo format` breaks them."""

from __future__ import annotations

LINE_LENGTH = 120
"""Generated text is stable under `mojo format -l 120`."""

_OPEN, _CLOSE = "([{", ")]}"
_OPERATORS = ((" | ",), (" ^ ",), (" & ",), (" << ", " >> "), (" + ", " - "), (" * ", " / ", " // ", " % "))
"""Binary operators, the weakest first; a line between brackets is broken before those."""


def broken(line: str) -> list[str]:
    """A line that fits, or the lines that `mojo format` makes of it."""
    if len(line) <= LINE_LENGTH or line.lstrip().startswith("#"):
        return [line]
    pad = line[: len(line) - len(line.lstrip())]
    if line.lstrip().startswith("def "):
        return _broken_def(line, pad)
    start = _last_group(line)
    if start is None:
        return [line]
    end = _end(line, start)
    inside = line[start + 1 : end]
    calls = start > 0 and (line[start - 1].isalnum() or line[start - 1] in "_])")
    parts = _inside(inside, pad) if calls else _within(inside, f"{pad}    ")  # a comma would make a tuple of it
    return [line[: start + 1], *parts, pad + line[end:]]


def _broken_def(line: str, pad: str) -> list[str]:
    """A function: its parameters, then its arguments, on lines of their own."""
    first = line.index("[")
    end = _end(line, first)
    start = end + 1
    last = _end(line, start)
    return [
        line[: first + 1],
        *_inside(line[first + 1 : end], pad),
        f"{pad}](",
        *_inside(line[start + 1 : last], pad),
        pad + line[last:],
    ]


def _inside(text: str, pad: str) -> list[str]:
    """What stands between brackets: on one line, or an item a line."""
    if len(pad) + 4 + len(text) <= LINE_LENGTH:
        return [f"{pad}    {text}"]
    return [line for item in _items(text) for line in _within(f"{item},", f"{pad}    ")]


def _within(text: str, pad: str) -> list[str]:
    """What stands on a line of its own between brackets, if it does not fit broken before its weakest operators."""
    if len(pad) + len(text) > LINE_LENGTH:
        for operators in _OPERATORS:
            if len(parts := _operands(text, operators)) > 1:
                return [line for part in parts for line in _within(part, pad)]
    return broken(pad + text)


def _operands(text: str, operators: tuple[str, ...]) -> list[str]:
    """The parts of an expression, each with the operator before it."""
    found, depth, start = [], 0, 0
    for n, c in enumerate(text):
        depth += (c in _OPEN) - (c in _CLOSE)
        if not depth and text.startswith(operators, n):
            found.append(text[start:n])
            start = n + 1
    return [*found, text[start:]]


def _items(text: str) -> list[str]:
    found, depth, start = [], 0, 0
    for n, c in enumerate(text):
        depth += (c in _OPEN) - (c in _CLOSE)
        if c == "," and not depth:
            found.append(text[start:n].strip())
            start = n + 1
    return [*found, text[start:].strip()]


def _last_group(line: str) -> int | None:
    """Where the last brackets on the outermost level that hold something begin."""
    depth, found = 0, None
    for n, c in enumerate(line):
        if c in _OPEN:
            if depth == 0 and line[n + 1] not in _CLOSE:
                found = n
            depth += 1
        elif c in _CLOSE:
            depth -= 1
    return found


def _end(line: str, start: int) -> int:
    depth = 0
    for n in range(start, len(line)):
        depth += (line[n] in _OPEN) - (line[n] in _CLOSE)
        if not depth:
            return n
    raise ValueError(f"unbalanced brackets: {line}")
