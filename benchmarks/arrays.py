"""Programs that move, index and reduce, beside jax.jit: row programs, sums, products without the product array.

    python benchmarks/arrays.py [--rounds 21] [--only softmax sum] [--check] [--plot arrays.png]

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
from jax import lax

ROWS, COLUMNS = 4096, 1024


def layer_norm(x, gain, bias):
    centred = x - x.mean(-1, keepdims=True)
    variance = jnp.square(centred).mean(-1, keepdims=True)
    return centred * lax.rsqrt(variance + 1e-5) * gain + bias


def layer_norm_gradient(x, gain, bias, upstream):
    return jax.vjp(layer_norm, x, gain, bias)[1](upstream)


def rms_norm(x, gain):
    return x * lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6) * gain


def cross_entropy(logits, labels):
    return -(labels * jax.nn.log_softmax(logits)).sum(-1).mean()


def softmax_gradient(x, upstream):
    return jax.vjp(jax.nn.softmax, x)[1](upstream)[0]


def group_norm_silu(x, gain, bias):
    n, c, h, w = x.shape
    groups = x.reshape(n, 8, c // 8, h, w)
    centred = groups - groups.mean((2, 3, 4), keepdims=True)
    scaled = centred * lax.rsqrt(jnp.square(centred).mean((2, 3, 4), keepdims=True) + 1e-5)
    return jax.nn.silu(scaled.reshape(x.shape) * gain[:, None, None] + bias[:, None, None])


def rotary(x, cos, sin):
    first, second = jnp.split(x, 2, -1)
    return x * cos + jnp.concatenate([-second, first], -1) * sin


def rbf(x, y, weights):
    return (jnp.exp(-((x[:, None] - y[None]) ** 2).sum(-1)) * weights).sum(-1)


def n_body(places, masses):
    apart = places[None] - places[:, None]
    inverse = lax.rsqrt((apart * apart).sum(-1) + 1e-3)
    return (apart * (masses * inverse**3)[..., None]).sum(1)


def nearest(points, centres):
    return jnp.argmin(((points[:, None] - centres[None]) ** 2).sum(-1), -1)


def hsv(rgb):
    r, g, b = rgb[..., 0], rgb[..., 1], rgb[..., 2]
    value = jnp.maximum(jnp.maximum(r, g), b)
    chroma = value - jnp.minimum(jnp.minimum(r, g), b)
    safe = jnp.where(chroma == 0, 1, chroma)
    hue = jnp.where(value == r, (g - b) / safe % 6, jnp.where(value == g, (b - r) / safe + 2, (r - g) / safe + 4))
    saturation = jnp.where(value == 0, 0, chroma / jnp.where(value == 0, 1, value))
    return jnp.stack([hue / 6, saturation, value], -1)


def max_pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 1, 1), "SAME")


def programs() -> list[Entry]:
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return jnp.asarray(rng.standard_normal(shape), jnp.float32)

    x, upstream, gain, bias = normal(ROWS, COLUMNS), normal(ROWS, COLUMNS), normal(COLUMNS), normal(COLUMNS)
    labels = jax.nn.one_hot(rng.integers(0, COLUMNS, ROWS), COLUMNS)
    flat = normal(4 << 20)
    return [
        Entry("softmax", jax.nn.softmax, (x,), 2.0),
        Entry("softmax, gradient", softmax_gradient, (x, upstream)),
        Entry("log_softmax", jax.nn.log_softmax, (x,), 2.0),
        Entry("logsumexp", lambda x: jax.nn.logsumexp(x, -1), (x,), 2.5),
        Entry("layer norm", layer_norm, (x, gain, bias), 1.3),
        Entry("layer norm, gradient", layer_norm_gradient, (x, gain, bias, upstream), 5.0),
        Entry("RMS norm", rms_norm, (x, gain), 1.3),
        Entry("cross entropy", cross_entropy, (x, labels), 2.5),
        Entry("cross entropy, gradient", jax.grad(cross_entropy), (x, labels), 2.5),
        Entry("argmax of rows", lambda x: jnp.argmax(x, -1), (x,), 25.0),
        Entry("cumsum of rows", lambda x: jnp.cumsum(x, -1), (x,), 12.0),
        Entry("cumsum of columns", lambda x: jnp.cumsum(x, 0), (x,), 3.0),
        Entry("sum", jnp.sum, (flat,), 1.0),
        Entry("sum of squares", lambda x: jnp.sum(x * x), (flat,), 1.0),
        Entry("mean and variance", lambda x: (jnp.mean(x), jnp.mean(x * x) - jnp.mean(x) ** 2), (flat,), 1.0),
        Entry("sums of columns", lambda x: x.sum(0), (x,), 1.2),
        Entry("RBF sums", rbf, (normal(2048, 3), normal(2048, 3), normal(2048)), 5.0),
        Entry("n-body forces", n_body, (normal(4096, 3), jnp.abs(normal(4096))), 3.0),
        Entry("nearest of 16 centres", nearest, (normal(100_000, 3), normal(16, 3)), 3.0),
        Entry("rotary embedding", rotary, (normal(8, 256, 16, 64), normal(256, 1, 64), normal(256, 1, 64)), 4.0),
        Entry("RGB to HSV", hsv, (jnp.abs(normal(512, 512, 3)),), 1.5),
        Entry("group norm and SiLU", group_norm_silu, (normal(8, 64, 64, 64), normal(64), normal(64)), 2.0),
        Entry("max pool 3x3", max_pool, (normal(1, 64, 64, 64),), 1.5),
        Entry("transpose", lambda x: x.T, (normal(4096, 4096),), 1.0),
        Entry(
            "embedding lookup", lambda t, i: jnp.take(t, i, 0), (normal(50_000, 64), rng.integers(0, 50_000, 100_000))
        ),
    ]


def main() -> int:
    return contest(programs(), arguments(__doc__ or "", 21).parse_args(), "programs that move, index and reduce")


if __name__ == "__main__":
    sys.exit(main())
