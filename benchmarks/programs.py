"""Whole functions beside jax.jit: the table of the README, and a chart.

    python benchmarks/programs.py [--points 1M] [--rounds 31] [--plot speed.png] [--only gelu adam] [--check]

"limit" is the time a copy of as many bytes takes on all cores, or that of the operations at the measured peak if it is
longer. With `--check` the exit status is 1 if a program misses its bar.
"""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from contest import Entry, arguments, contest
from copy_bandwidth import size
from jax.scipy.stats import norm


def black_scholes(spot, strike, years, rate, volatility):
    spread = volatility * jnp.sqrt(years)
    d1 = (jnp.log(spot / strike) + (rate + volatility**2 / 2) * years) / spread
    return spot * norm.cdf(d1) - strike * jnp.exp(-rate * years) * norm.cdf(d1 - spread)


def greeks(*market):
    return jax.grad(lambda *m: black_scholes(*m).sum(), argnums=(0, 1, 2, 3, 4))(*market)


def haversine(lat1, lon1, lat2, lon2):
    a = jnp.sin((lat2 - lat1) / 2) ** 2 + jnp.cos(lat1) * jnp.cos(lat2) * jnp.sin((lon2 - lon1) / 2) ** 2
    return 2 * 6371.0 * jnp.arctan2(jnp.sqrt(a), jnp.sqrt(1 - a))


def adam(params, grads, mean, var, step):
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, grads)
    var = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, var, grads)
    fix1, fix2 = 1 - 0.9**step, 1 - 0.999**step
    new = jax.tree.map(lambda p, m, v: p - 1e-3 * (m / fix1) / (jnp.sqrt(v / fix2) + 1e-8), params, mean, var)
    return new, mean, var


def lion(params, grads, mean):
    step = jax.tree.map(lambda m, g: jnp.sign(0.9 * m + 0.1 * g), mean, grads)
    new = jax.tree.map(lambda p, s: p - 1e-4 * (s + 0.1 * p), params, step)
    return new, jax.tree.map(lambda m, g: 0.99 * m + 0.01 * g, mean, grads)


def momentum(params, grads, velocity):
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, grads)
    return jax.tree.map(lambda p, v: p - 1e-2 * v, params, velocity), velocity


def derivative(f):
    return jax.vmap(jax.grad(f))


def exact_gelu(x):
    return jax.nn.gelu(x, approximate=False)


def brighten(image, gain):
    return jnp.clip(image.astype(jnp.float32) * gain, 0, 255).astype(jnp.uint8)


def programs(n: int) -> list[Entry]:
    rng = np.random.default_rng(0)

    def uniform(low: float, high: float, count: int = n, dtype: Any = jnp.float32) -> jax.Array:
        return jnp.asarray(rng.uniform(low, high, count), dtype)

    def tree(low: float, high: float) -> list[jax.Array]:
        return [uniform(low, high, n // 20 + k) for k in range(20)]

    market = (uniform(50, 150), uniform(50, 150), uniform(0.1, 2), uniform(0.01, 0.1), uniform(0.1, 0.6))
    x = uniform(-4, 4)
    activations = {
        "GELU": jax.nn.gelu,
        "GELU, exact": exact_gelu,
        "SiLU": jax.nn.silu,
        "softplus": jax.nn.softplus,
        "mish": jax.nn.mish,
    }
    entries = [
        Entry("x * 2 + 1", lambda x: x * 2 + 1, (x,), 1.0),
        Entry("sin((x + y)**2)", lambda x, y: jnp.sin((x + y) ** 2), (x, uniform(-4, 4)), 6.0),
        Entry("haversine", haversine, (uniform(-1.5, 1.5), uniform(-3, 3), uniform(-1.5, 1.5), uniform(-3, 3)), 6.0),
        Entry("Black-Scholes", black_scholes, market, 4.0),
        Entry("its five derivatives", greeks, market, 12.0),
    ]
    for name, function in activations.items():
        entries.append(Entry(name, function, (x,), 1.5))
        entries.append(Entry(f"{name}, derivative", derivative(function), (x,), 1.5))
    return [
        *entries,
        Entry("SiLU, bfloat16", jax.nn.silu, (x.astype(jnp.bfloat16),), 2.0),
        Entry("Adam, 20 arrays", adam, (tree(-1, 1), tree(-1, 1), tree(-1, 1), tree(0, 1), jnp.float32(7)), 1.2),
        Entry("Lion, 20 arrays", lion, (tree(-1, 1), tree(-1, 1), tree(-1, 1)), 1.2),
        Entry("momentum, 20 arrays", momentum, (tree(-1, 1), tree(-1, 1), tree(-1, 1)), 1.2),
        Entry("brighten, uint8", brighten, (uniform(0, 255, n, jnp.uint8), jnp.float32(1.3)), 1.0),
        Entry("i // 7, i % 7", lambda i: (i // 7, i % 7), (uniform(-1e6, 1e6, n, jnp.int32),), 1.0),
    ]


def main() -> int:
    parser = arguments(__doc__ or "", 31)
    parser.add_argument("--points", type=size, default=1 << 20, metavar="N")
    options = parser.parse_args()
    return contest(programs(options.points), options, f"programs of {options.points:,} points")


if __name__ == "__main__":
    sys.exit(main())
