"""What a call costs: each step on the way of 16 floats, and the whole of it beside jax.jit.

    python benchmarks/dispatch.py [--check] [--rounds 7]

Every figure is the least of several medians, in microseconds. With `--check` the exit status is 1 if a decorated call
takes more than 25.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import tree_flatten

import juju
from juju._jaxcompat import finisher, holder, pointer, trace_context
from juju.engines.pool import default_pool
from juju.engines.trampoline import HEADER_BYTES, trampoline

BAR = 25.0
CALLS = 2000


def microseconds(run: Callable[[], object], rounds: int, calls: int = CALLS) -> float:
    """The time of one call, less that of measuring it."""

    def middle(measured: Callable[[], object]) -> float:
        samples = []
        for _ in range(calls):
            start = time.perf_counter_ns()
            measured()
            samples.append(time.perf_counter_ns() - start)
        return statistics.median(samples)

    for _ in range(50):
        run()
    return (min(middle(run) for _ in range(rounds)) - min(middle(lambda: None) for _ in range(rounds))) / 1000


def function(x: jax.Array, y: jax.Array) -> jax.Array:
    return x * 2 + y


def each(*xs: jax.Array) -> list[jax.Array]:
    return [x + 1 for x in xs]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="exit with 1 if the bar is missed")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()

    x, y = jnp.arange(16.0), jnp.ones(16)
    fused, jitted = juju.fuse(function), jax.jit(function)
    fused(x, y)
    executable = fused.lower(x, y).compile()._executable
    pool, launcher, device = default_pool(), trampoline(), x.devices().pop()
    launcher.open_graph(wait=True)
    layout, aval = executable._layouts[0], executable._avals[0]
    program = executable._new_program()
    block = pool.take(layout)
    addresses = [pointer(x), pointer(y), block.address]
    program.pack(program.memory, HEADER_BYTES, *addresses)
    give = pool.giver(device, finisher(aval, device, False))
    hold, leaves = holder("float32"), [x, y]

    steps: dict[str, Callable[[], Any]] = {
        "flatten the arguments": lambda: tree_flatten(((x, y), {})),
        "their types, and what else decides the trace": lambda: (
            tuple([leaf.aval for leaf in leaves]),
            trace_context(),
        ),
        "hold the two operands": lambda: list(map(hold, leaves)),
        "their addresses": lambda: list(map(pointer, leaves)),
        "take a block, and drop it": lambda: pool.drop(pool.take(layout)),
        "write the addresses": lambda: program.pack(program.memory, HEADER_BYTES, *addresses),
        "run on the calling thread": lambda: launcher.serial(program.address),
        "run with the crew": lambda: launcher.crewed(program.address),
        "run in the MAX graph": lambda: launcher.parallel(program.inputs),
        "a block as jax array, until it dies": lambda: give(pool.take(layout)),
    }
    for name, run in steps.items():
        print(f"  {name:46} {microseconds(run, options.rounds):7.2f}")
    total = microseconds(lambda: fused(x, y), options.rounds)
    print(f"{'the executable':48} {microseconds(lambda: executable.run(leaves), options.rounds):7.2f}")
    print(f"{'a decorated call':48} {total:7.2f}")
    print(f"{'the same call of jax.jit':48} {microseconds(lambda: jitted(x, y), options.rounds):7.2f}")
    many = [jnp.full(16, float(i)) for i in range(100)]
    wide, jit_wide = juju.fuse(each), jax.jit(each)
    print(f"{'100 operands and 100 results':48} {microseconds(lambda: wide(*many), options.rounds, 200):7.2f}")
    print(f"{'the same call of jax.jit':48} {microseconds(lambda: jit_wide(*many), options.rounds, 200):7.2f}")
    if total > BAR:
        print(f"missed: a decorated call takes more than {BAR} us")
    return 1 if total > BAR and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
