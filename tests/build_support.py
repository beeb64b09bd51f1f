"""Small kernels, and a stand-in for the compiler, for the tests of the build."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shlex
import stat
import sys
from pathlib import Path

import numpy as np
import pytest

import juju.build.process
from juju.build import Built, Toolchain
from juju.plan import Kernel, SourceLine

HEAD = """\
from std.math import sqrt

comptime F32 = Pointer[Float32, MutAnyOrigin]
{extra_head}

@export
def {symbol}(args: Pointer[Int64, MutAnyOrigin], lo: Int, hi: Int) abi("C") -> Int:
    var x = args.unsafe_bitcast[F32]()[unsafe_offset=0]
    var o = args.unsafe_bitcast[F32]()[unsafe_offset=1]
    for i in range(lo, hi):
        var v = x[unsafe_offset=i]
        o[unsafe_offset=i] = {expression}
    return 0
"""
EXPRESSION_LINE = 12
"""The line of `HEAD` that holds the expression if `extra_head` is one line."""


def make_kernel(
    name: str,
    expression: str,
    *,
    extra_head: str = "",
    imports: tuple[str, ...] = (),
    lines: tuple[SourceLine, ...] = (),
    text: str | None = None,
) -> Kernel:
    """A kernel over one f32 array that writes `expression` of its element `v`."""
    canonical = text or HEAD.format(symbol="SYMBOL", expression=expression, extra_head=extra_head)
    key = hashlib.sha256(canonical.encode()).hexdigest()
    symbol = f"juju_{name}_{key[:16]}"
    return Kernel(name, symbol, key, canonical.replace("SYMBOL", symbol), imports, lines)


def call(built: Built, x: np.ndarray) -> np.ndarray:
    """Runs the kernel over all of `x`."""
    out = np.full_like(x, np.nan)
    words = np.array([x.ctypes.data, out.ctypes.data], np.int64)
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(built.address())
    assert function(words.ctypes.data, 0, x.size) == 0
    return out


STAND_IN = '''\
"""Stands in for `mojo build`: does what the kernels' texts say."""
import os, pathlib, re, signal, subprocess, sys, time

words = sys.argv[1:]
source, output = pathlib.Path(words[words.index("-o") - 1]), pathlib.Path(words[words.index("-o") + 1])
files = sorted(source.parent.glob("juju_kernel_*.mojo"))
text = "".join(file.read_text() for file in files)
with open(os.environ["JUJU_TEST_LOG"], "a") as log:
    log.write(f"{os.getpid()} {len(files)} {os.environ['TMPDIR']}\\n")
output.write_bytes(b"half")
if "HANG" in text:
    subprocess.Popen(["sleep", "60"])
    time.sleep(60)
if "SEGFAULT" in text:
    os.kill(os.getpid(), signal.SIGSEGV)
if "KILLED" in text:
    os.kill(os.getpid(), signal.SIGKILL)
if "NO SPACE" in text and "juju-" not in os.environ["TMPDIR"]:
    sys.exit("LLVM ERROR: IO failure on output stream: No space left on device")
if "NO LINKER" in text:
    sys.exit("mojo: error: unable to find suitable c compiler for linking")
output.write_bytes(b"".join(symbol.encode() + b"\\0" for symbol in re.findall(r"^def (\\w+)", text, re.MULTILINE)))
'''


class StandIn:
    """A compiler that takes no time, for what happens around it. `runs` lists (process, kernels) of each run."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        script = folder / "stand_in.py"
        script.write_text(STAND_IN)
        program = folder / "mojo"
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -IS {shlex.quote(str(script))} "$@"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.log = folder / "log"
        tools = Toolchain(program, "1.2.0", "26.7.0", "stand-in", linker=None)
        monkeypatch.setenv("JUJU_TEST_LOG", str(self.log))
        monkeypatch.setattr(juju.build.process, "toolchain", lambda: tools)

    @property
    def runs(self) -> list[tuple[int, int]]:
        if not self.log.exists():
            return []
        return [(int(line.split()[0]), int(line.split()[1])) for line in self.log.read_text().splitlines()]


def left_over(root: Path) -> list[str]:
    """Names of temporary files and locks below a store."""
    return [str(path.relative_to(root)) for folder in "tl" for path in root.glob(f"*/{folder}/*")]


def is_running(process: int) -> bool:
    """Whether the process exists and is not a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def worker_environment(cache: Path) -> dict[str, str]:
    """The environment for another process that uses the store `cache`."""
    source = Path(juju.build.__file__).parents[2]
    path = os.pathsep.join([str(source), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "JUJU_CACHE_DIR": str(cache), "PYTHONPATH": path}
