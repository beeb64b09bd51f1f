"""Memory-bound chains against the bandwidth of a copy, and against jax.jit.

    python benchmarks/copy_bandwidth.py [--check] [--sizes 1M 16M 64M] [--rounds 51]

`x * 2 + 1` reads an array and writes another: as many bytes as a copy. The copy goes between two warm numpy arrays,
with one thread a core. juju writes into a recycled result every time, as when the result of the last step is dropped;
jax.jit gets a fresh one from the allocator. All three take turns, so that a busy machine disturbs them alike.

With `--check` the exit status is 1 unless juju takes at most 1.3 times as long as the copy, and jax.jit at least 3
times as long as juju, on 16M floats and more; on 1M jax.jit must take at least as long.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np

import juju
from juju.engines.pool import default_pool
from juju.engines.trampoline import trampoline

COPY_BAR, JIT_BAR, SMALL_JIT_BAR = 1.3, 3.0, 1.0
LARGE = 16 << 20


def size(text: str) -> int:
    factor = {"K": 1 << 10, "M": 1 << 20}.get(text[-1:].upper(), 1)
    return int(text if factor == 1 else text[:-1]) * factor


def chain(x: jax.Array) -> jax.Array:
    return x * 2 + 1


class Copy:
    """Copies one array to another, a part on each core."""

    def __init__(self, source: np.ndarray, threads: int) -> None:
        self.target = np.ones_like(source)
        borders = [len(source) * t // threads for t in range(threads + 1)]
        self.parts = [slice(a, b) for a, b in itertools.pairwise(borders)]
        self.source, self.pool = source, ThreadPoolExecutor(threads)

    def __call__(self) -> None:
        jobs = [self.pool.submit(np.copyto, self.target[part], self.source[part]) for part in self.parts]
        for job in jobs:
            job.result()


def measure(n: int, rounds: int, threads: int) -> dict[str, list[float]]:
    x = jnp.asarray(np.random.default_rng(0).standard_normal(n, np.float32))
    fused, jitted = juju.fuse(chain), jax.jit(chain)
    np.testing.assert_allclose(np.asarray(fused(x)), np.asarray(jitted(x)), rtol=1e-6)
    trampoline().open_graph(wait=True)
    contenders: dict[str, Callable[[], object]] = {
        "copy": Copy(np.asarray(x), threads),
        "juju": lambda: fused(x),
        "jax.jit": lambda: jitted(x).block_until_ready(),
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds + 2):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            if turn >= 2:
                times[name].append(time.perf_counter() - start)
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="exit with 1 if a bar is missed")
    parser.add_argument("--sizes", nargs="+", type=size, default=[1 << 20, 16 << 20, 64 << 20], metavar="N")
    parser.add_argument("--rounds", type=int, default=51)
    options = parser.parse_args()

    threads = len(os.sched_getaffinity(0))
    print(f"x * 2 + 1 on float32, {threads} cores, {options.rounds} rounds in turn; milliseconds, median and least\n")
    print(
        f"{'floats':>10} {'copy':>16} {'juju':>16} {'jax.jit':>16} {'juju GB/s':>10} {'to copy':>8} {'jit to juju':>12}"
    )
    missed = []
    for n in options.sizes:
        times = measure(n, options.rounds, threads)
        middle = {name: statistics.median(samples) for name, samples in times.items()}
        columns = " ".join(f"{middle[name] * 1e3:9.3f} {min(samples) * 1e3:6.2f}" for name, samples in times.items())
        to_copy, to_jit = middle["juju"] / middle["copy"], middle["jax.jit"] / middle["juju"]
        print(f"{n:>10} {columns} {8 * n / middle['juju'] / 1e9:10.1f} {to_copy:8.2f} {to_jit:12.2f}")
        if n >= LARGE and to_copy > COPY_BAR:
            missed.append(f"{n} floats take {to_copy:.2f} times as long as a copy (bar {COPY_BAR})")
        if to_jit < (JIT_BAR if n >= LARGE else SMALL_JIT_BAR):
            missed.append(f"{n} floats are {to_jit:.2f} times as fast as jax.jit")
    print(f"\n{default_pool().stats()}")
    for line in missed:
        print(f"missed: {line}")
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
