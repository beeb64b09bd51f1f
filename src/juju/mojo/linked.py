"""A plan's kernels as a Mojo package of MAX custom ops: their own text, and an op that calls each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import jinja2

from juju._resources import resource_dir
from juju.errors import InternalError
from juju.plan import Kernel, Launch, Plan

OPS = "ops"
"""The package's module that registers the ops."""

_TEMPLATE = "linked.mojo.j2"
_UNLIKE = "{plan} launches {kernel} with different buffers read and written"
_UNWRITTEN = "{plan}: the kernel {kernel} reads a buffer that no step has written"
_CLASH = "two kernels of {plan} have the symbol {symbol}"


@dataclass(frozen=True)
class Op:
    """The custom op of a kernel. `reads` and `writes`, positions in `Launch.buffers`, are its operands and results."""

    kernel: Kernel
    module: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    sizes: tuple[str, ...]

    @property
    def name(self) -> str:
        """What the op is registered as."""
        return self.kernel.symbol

    @property
    def words(self) -> tuple[str, ...]:
        """The argument whose address is in each word of the kernel's arguments."""
        return tuple(f"{'y' if n in self.writes else 'x'}{n}" for n in range(len(self.reads) + len(self.writes)))


def ops_of(plans: Iterable[Plan]) -> dict[str, Op]:
    """The op of each kernel symbol that one of `plans` launches. Raises `InternalError` if two kernels share one."""
    found: dict[str, Op] = {}
    for plan in plans:
        written: set[int] = set()
        for step in plan.steps:
            if isinstance(step, Launch):
                op = _op(plan, step, written, f"kernel{len(found)}")
                known = found.setdefault(op.name, op)
                if known.kernel.key != op.kernel.key:
                    raise InternalError(_CLASH.format(plan=plan.name, symbol=op.name))
                if (known.reads, known.writes, known.sizes) != (op.reads, op.writes, op.sizes):
                    raise InternalError(_UNLIKE.format(plan=plan.name, kernel=op.kernel.name))
                written.update(step.buffers[n] for n in op.writes)
            else:
                written.update(step.results)
    return found


def render(ops: dict[str, Op]) -> dict[str, str]:
    """The package's files, name to text."""
    files = {f"{op.module}.mojo": _code(op.kernel.text) for op in ops.values()}
    files[f"{OPS}.mojo"] = _template().render(ops=list(ops.values()))
    files["__init__.mojo"] = f'"""Kernels written by juju, as MAX custom ops."""\n\nfrom .{OPS} import *\n'
    return files


def _code(text: str) -> str:
    """A kernel's text without its comments: they name the user's lines, and would make a package of every edit."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.lstrip().startswith("#"))


def template_text() -> str:
    """The template's source, which decides the ops' code together with the kernels."""
    return (resource_dir("templates") / _TEMPLATE).read_text(encoding="utf-8")


def _op(plan: Plan, launch: Launch, written: set[int], module: str) -> Op:
    """A launch writes the plan's own buffers that no earlier step has written, and reads the others."""
    writes = tuple(
        n
        for n, buffer in enumerate(launch.buffers)
        if plan.buffers[buffer].kind in ("result", "scratch") and buffer not in written
    )
    reads = tuple(n for n in range(len(launch.buffers)) if n not in writes)
    if len({launch.buffers[n] for n in reads}) != launch.reads:
        raise InternalError(_UNWRITTEN.format(plan=plan.name, kernel=plan.kernels[launch.kernel].name))
    sizes = tuple(f"size{n}" for n in range(len(launch.sizes)))
    return Op(plan.kernels[launch.kernel], module, reads, writes, sizes)


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(resource_dir("templates")),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    return environment.get_template(_TEMPLATE)
