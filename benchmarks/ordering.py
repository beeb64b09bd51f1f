"""Programs that sort, select and write by index, beside jax.jit.

    python benchmarks/ordering.py [--rounds 11] [--only sort top] [--check] [--plot ordering.png]

"limit" is the time a copy of as many bytes takes on all cores. With `--check` the exit status is 1 if a program misses
its bar.
"""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import numpy as np
from contest import Entry, arguments, contest
from jax import lax

LONG = 1 << 20
ROWS, COLUMNS = 4096, 1024


def cross_entropy(logits, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], -1).mean()


def embedding_gradient(table, places, upstream):
    return jax.vjp(lambda t: jnp.take(t, places, 0), table)[1](upstream)[0]


def programs() -> list[Entry]:
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    def places(count: int, end: int) -> np.ndarray:
        return rng.integers(0, end, count).astype(np.int32)

    x, flat = normal(ROWS, COLUMNS), normal(LONG)
    return [
        Entry("sort", jnp.sort, (flat,), 12.0),
        Entry("sort of int32", jnp.sort, (places(LONG, 1 << 30),)),
        Entry("sort of rows", lambda x: jnp.sort(x, -1), (x,), 15.0),
        Entry("sort of columns", lambda x: jnp.sort(x, 0), (x,)),
        Entry("sort of rows of 16", lambda x: jnp.sort(x, -1), (normal(1 << 16, 16),)),
        Entry("argsort", jnp.argsort, (flat,), 6.0),
        Entry("argsort of rows", lambda x: jnp.argsort(x, -1), (x,)),
        Entry("sort by two keys", lambda x, y: lax.sort((x, y), num_keys=2), (places(LONG, 1000), flat)),
        Entry("median of rows", lambda x: jnp.median(x, -1), (x,)),
        Entry("top 8 of rows", lambda x: lax.top_k(x, 8), (x,), 4.0),
        Entry("top 100 of rows", lambda x: lax.top_k(x, 100), (x,)),
        Entry("sum of segments", lambda x, i: jax.ops.segment_sum(x, i, 1000), (flat, places(LONG, 1000))),
        Entry("bincount", lambda i: jnp.bincount(i, length=1000), (places(LONG, 1000),)),
        Entry("sum of rows by segment", lambda x, i: jax.ops.segment_sum(x, i, 64), (x, places(ROWS, 64))),
        Entry("replace elements", lambda x, i, u: x.at[i].set(u), (flat, places(LONG, LONG), normal(LONG))),
        Entry("replace a few rows", lambda x, i: x.at[i].set(0.0), (x, places(16, ROWS))),
        Entry("largest of rows", lambda x, i, u: x.at[i].max(u), (x, places(ROWS, ROWS), normal(ROWS, COLUMNS))),
        Entry(
            "embedding, gradient",
            embedding_gradient,
            (normal(50_000, 64), places(100_000, 50_000), normal(100_000, 64)),
        ),
        Entry("cross entropy, gradient", jax.grad(cross_entropy), (x, places(ROWS, COLUMNS))),
    ]


def main() -> int:
    return contest(
        programs(), arguments(__doc__ or "", 11).parse_args(), "programs that sort, select and write by index"
    )


if __name__ == "__main__":
    sys.exit(main())
