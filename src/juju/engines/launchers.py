"""The C functions of `kernels/juju_runtime`, compiled once per machine in a single run of the compiler."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cache

from juju.build import Progress, build_kernels, kernel_key
from juju.plan import Kernel

_TEXT = """\
from juju_runtime.{module} import {function}
from juju_runtime.program import Words, as_words


@export
def {symbol}(args: Words, lo: Int, hi: Int) abi("C") -> Int:
    {body}
"""


@dataclass(frozen=True)
class Launchers:
    """Addresses of functions of three words.

    `serial(program)` runs a program on the calling thread, `crewed(program, crew)` with the help of a crew; both return
    a status. `found(crew, helpers)` makes a crew of a block of zeros, `serve(crew)` is the life of a helper. `copy` is
    a kernel. `push(tensor)` and `pop_all(head)` keep a list of returned tensors.
    """

    serial: int
    crewed: int
    found: int
    serve: int
    copy: int
    push: int
    pop_all: int


_lock = threading.Lock()
_loaded: Launchers | None = None


def launchers(progress: Progress | None = None) -> Launchers:
    """The functions of this process, compiled at first use on a machine. Raises as `build_kernels` does."""
    global _loaded
    if _loaded is None:
        with _lock:
            if _loaded is None:
                _loaded = Launchers(*(built.address() for built in build_kernels(kernels(), progress=progress)))
    return _loaded


@cache
def kernels() -> tuple[Kernel, ...]:
    """What is compiled, in the order of `Launchers`."""
    return (
        _kernel("program", "serial", "return serial(args)"),
        _kernel("crew", "crewed", "return crewed(args, as_words(lo))"),
        _kernel("crew", "found", "found(args, lo)\n    return 0"),
        _kernel("crew", "serve", "serve(args)\n    return 0"),
        _kernel("copy", "copy", "copy(args, lo, hi)\n    return 0"),
        _kernel("returned", "push", "push(args)\n    return 0"),
        _kernel("returned", "pop_all", "return pop_all(args)"),
    )


def _kernel(module: str, function: str, body: str) -> Kernel:
    imports = ("juju_runtime",)
    key = kernel_key(_TEXT.format(module=module, function=function, symbol="", body=body), imports)
    symbol = f"juju_{function}_{key[:16]}"
    text = _TEXT.format(module=module, function=function, symbol=symbol, body=body)
    return Kernel(f"juju_{function}", symbol, key, text, imports)
