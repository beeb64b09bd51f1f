"""What this machine can do at most: how fast it copies, and how many multiply-adds it makes in a second."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import pairwise

import numpy as np

from juju._machine import cores

COPIED = (1 << 14, 1 << 18, 1 << 22, 1 << 25)
"""Bytes of the arrays that are copied: within the caches of a core, within the shared one, and beyond."""

MATRIX, ROUNDS = 512, 9


@dataclass(frozen=True)
class Limits:
    """Measured once on a machine.

    `copies` are bytes read and written together, and the seconds that took on all cores; `multiply_adds` are fused
    multiply-adds of float32 a second.
    """

    copies: tuple[tuple[int, float], ...]
    multiply_adds: float

    def moving(self, nbytes: float) -> float:
        """Seconds a copy takes that reads and writes so many bytes together."""
        (first, least), (last, most) = self.copies[0], self.copies[-1]
        if nbytes <= first:
            return nbytes * least / first
        if nbytes >= last:
            return nbytes * most / last
        sizes, seconds = ([math.log(number) for number in column] for column in zip(*self.copies, strict=True))
        return math.exp(float(np.interp(math.log(nbytes), sizes, seconds)))

    def computing(self, operations: float) -> float:
        """Seconds so many operations take at the peak."""
        return operations / self.multiply_adds


def machine_limits() -> Limits:
    """The limits of this machine; the first time they are measured, which takes a second. Raises `StoreError`."""
    return known_limits() or measure_limits()


def known_limits() -> Limits | None:
    """The limits of this machine, if they were measured before. Raises `StoreError`."""
    from juju.build import default_store

    text = default_store().read_facts(_digest())
    if text is None:
        return None
    raw = json.loads(text)
    return Limits(tuple((size, seconds) for size, seconds in raw["copies"]), raw["multiply_adds"])


def measure_limits() -> Limits:
    """Measures the limits of this machine, and keeps them in the store. Raises `StoreError`."""
    from juju.build import default_store

    limits = Limits(tuple((2 * nbytes, _copy(nbytes)) for nbytes in COPIED), MATRIX**3 / _product())
    default_store().write_facts(_digest(), json.dumps(asdict(limits)))
    return limits


def _digest() -> str:
    return hashlib.sha256(f"limits 1, {cores()} cores".encode()).hexdigest()


def _copy(nbytes: int) -> float:
    """Seconds of a copy, by one thread or by one for each core, whichever is faster."""
    source, target = np.ones(nbytes, np.uint8), np.ones(nbytes, np.uint8)
    borders = [nbytes * n // cores() for n in range(cores() + 1)]
    parts = [slice(low, high) for low, high in pairwise(borders)]
    with ThreadPoolExecutor(cores()) as pool:

        def together() -> None:
            for job in [pool.submit(np.copyto, target[part], source[part]) for part in parts]:
                job.result()

        return min(_fastest(lambda: np.copyto(target, source)), _fastest(together))


def _product() -> float:
    """Seconds of a product of square matrices."""
    import jax

    with jax.default_device(jax.devices("cpu")[0]):
        matrix = jax.numpy.ones((MATRIX, MATRIX), jax.numpy.float32)
        product = jax.jit(jax.numpy.dot)
        return _fastest(lambda: product(matrix, matrix).block_until_ready())


def _fastest(run: Callable[[], object]) -> float:
    run()
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)
