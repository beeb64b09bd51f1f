"""First calls: of a new function against a bare `mojo build` of the same text, and in a new process.

    python benchmarks/first_call.py [--check] [--rounds 5]

Every round makes a function no store has seen. "bare" is `mojo build --emit shared-lib` of the text juju generates for
it; "first call" is the whole way from the decorated function to its result, with the launcher already on this machine.
"new process" is the time of the first call after the imports in a process that finds the kernel in the store, and
"background" a first call that is answered through jax.jit. With `--check` the exit status is 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import jax
import jax.numpy as jnp

import juju
from juju.build import helper_package, toolchain

BARE_BAR, PROCESS_BAR, BACKGROUND_BAR = 1.3, 0.060, 0.3

NEW_PROCESS = textwrap.dedent(
    """
    import sys, time, jax, jax.numpy as jnp, juju
    from juju.build import compiler_runs
    f = juju.fuse(lambda x, y: jnp.tanh(x) * y + 1)
    x = jnp.arange(1000.0)
    start = time.perf_counter()
    f(x, 2.0).block_until_ready()
    print(time.perf_counter() - start, compiler_runs())
    """
)

BACKGROUND = textwrap.dedent(
    """
    import os, sys, time, jax, jax.numpy as jnp, juju
    k = float(sys.argv[1])
    f = juju.fuse(lambda x, y: jnp.tanh(x) * y + k, compile="background")
    x = jnp.arange(1000.0)
    start = time.perf_counter()
    f(x, 2.0).block_until_ready()
    print(time.perf_counter() - start, flush=True)
    os._exit(0)
    """
)


def new_function():
    """A function with constants of its own, so that nobody has compiled it before."""
    a, b = random.uniform(1, 2), random.uniform(1, 2)

    def f(x, y):
        return jnp.exp(-x * a) * y + jnp.tanh(x - b)

    return f


def bare_build(text: str, folder: Path) -> float:
    source = folder / f"bare{random.randrange(1 << 40)}.mojo"
    # Another constant, or Mojo's own cache would have the text from the first call.
    source.write_text(text.replace("tanh(", "tanh(F32(1.25) * ", 1) if "F32(" in text else text)
    words = [str(toolchain().mojo), "build", "--emit", "shared-lib", str(source), "-o", str(source.with_suffix(".so"))]
    for name in ("juju_kernel", "juju_math"):
        words += ["-I", str(helper_package(name))]
    start = time.perf_counter()
    subprocess.run(words, check=True, capture_output=True)
    return time.perf_counter() - start


def child(program: str, *args: str) -> list[float]:
    done = subprocess.run([sys.executable, "-c", program, *args], capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="exit with 1 if a bar is missed")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()

    x, y = jnp.linspace(-1, 1, 1000), jnp.float32(2)
    juju.fuse(lambda x: x + 1)(x)  # the launcher and the helper packages are there
    jax.jit(lambda x: x + 1)(x)
    bare, first, process, background = [], [], [], []
    child(NEW_PROCESS)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            f = new_function()
            text = juju.fuse(f).lower(x, y).as_text("mojo")
            start = time.perf_counter()
            juju.fuse(f)(x, y).block_until_ready()
            first.append(time.perf_counter() - start)
            bare.append(bare_build(text, Path(folder)))
            seconds, runs = child(NEW_PROCESS)
            assert runs == 0, "a compiler ran in a process that finds its kernel in the store"
            process.append(seconds)
            background += child(BACKGROUND, str(random.uniform(1, 2)))
    rows = {"bare mojo build": bare, "first call": first, "new process": process, "background": background}
    print(f"{options.rounds} rounds in turn; seconds, median and least\n")
    for name, samples in rows.items():
        print(f"{name:>16} {statistics.median(samples):8.3f} {min(samples):8.3f}")
    ratio = statistics.median(a / b for a, b in zip(first, bare, strict=True))
    print(f"\nfirst call to bare build: {ratio:.2f} (bar {BARE_BAR})")
    missed = [
        name
        for name, value, bar in (
            ("first call", ratio, BARE_BAR),
            ("new process", statistics.median(process), PROCESS_BAR),
            ("background", statistics.median(background), BACKGROUND_BAR),
        )
        if value > bar
    ]
    print(f"missed: {', '.join(missed)}" if missed else "all bars met")
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
