"""A plan's kernels as a Mojo package of MAX custom ops: their own text, and an op that calls each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import jinja2

from juju._resources import resource_dir
from juju.errors import InternalError
from juju.plan import Kernel, Plan

OPS = "ops"
"""The package's module that registers the ops."""

_TEMPLATE = "linked.mojo.j2"
_UNLIKE = "{plan} launches {kernel} with different buffers read and written"
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
        for launch in plan.launches:
            kernel = plan.kernels[launch.kernel]
            reads = tuple(n for n in range(len(launch.buffers)) if n not in launch.writes)
            sizes = tuple(f"size{n}" for n in range(len(launch.sizes)))
            op = found.setdefault(kernel.symbol, Op(kernel, f"kernel{len(found)}", reads, launch.writes, sizes))
            if op.kernel.key != kernel.key:
                raise InternalError(_CLASH.format(plan=plan.name, symbol=op.name))
            if (op.reads, op.writes, op.sizes) != (reads, launch.writes, sizes):
                raise InternalError(_UNLIKE.format(plan=plan.name, kernel=kernel.name))
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


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(resource_dir("templates")),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    return environment.get_template(_TEMPLATE)
