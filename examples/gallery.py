"""The gallery: functions whose generated kernels are kept in `generated/`, to be read and replayed.

`make golden` writes the kernels again; `tests/test_golden.py` fails if one has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.stats import norm


class Exhibit(NamedTuple):
    """A function, the types it is lowered for, and how many kernels it becomes."""

    f: Callable[..., Any]
    args: tuple[Any, ...]
    kernels: int = 1


def _array(*shape: int, dtype: str = "float32") -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))


def readme(x, y):
    return jnp.sin((x + y) ** 2)


def saxpy(a, x, y):
    return a * x + y


def gelu(x):
    return jax.nn.gelu(x)


def silu_bfloat16(x):
    return jax.nn.silu(x)


def black_scholes(spot, strike, t, rate, vol):
    d1 = (jnp.log(spot / strike) + (rate + vol**2 / 2) * t) / (vol * jnp.sqrt(t))
    d2 = d1 - vol * jnp.sqrt(t)
    return spot * norm.cdf(d1) - strike * jnp.exp(-rate * t) * norm.cdf(d2)


def black_scholes_greeks(spot, strike, t, rate, vol):
    def total(*args):
        return black_scholes(*args)

    grad = jax.vmap(jax.grad(total, argnums=(0, 2)), in_axes=(0, 0, 0, None, None))
    return grad(spot, strike, t, rate, vol)


def adam(params, grads, m, v, step):
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
    v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, grads)
    fix_m, fix_v = 1 - 0.9**step, 1 - 0.999**step

    def update(p, m, v):
        return p - 1e-3 * (m / fix_m) / (jnp.sqrt(v / fix_v) + 1e-8)

    return jax.tree.map(update, params, m, v), m, v


def haversine(lat1, lon1, lat2, lon2):
    a = jnp.sin((lat2 - lat1) / 2) ** 2 + jnp.cos(lat1) * jnp.cos(lat2) * jnp.sin((lon2 - lon1) / 2) ** 2
    return 2 * 6371.0 * jnp.arctan2(jnp.sqrt(a), jnp.sqrt(1 - a))


def clip_and_count(x, limit):
    return jnp.clip(x, -limit, limit), jnp.isnan(x), jnp.where(jnp.abs(x) > limit, 1, 0)


def integer_mix(i, j):
    return i // j, i % j, (i << 3) ^ (j >> 1), jnp.minimum(i, j).astype(jnp.uint8)


def brighten(image, gain):
    return jnp.clip(image.astype(jnp.float32) * gain, 0, 255).astype(jnp.uint8)


def edge_constants(x):
    return jnp.where(x > 0, x, jnp.nan), x + jnp.inf, jnp.where(x > 9, x, -0.0), jnp.finfo(jnp.float32).max * x


def softmax(x):
    return jax.nn.softmax(x)


def layer_norm(x, gain, bias):
    centred = x - x.mean(-1, keepdims=True)
    variance = jnp.square(centred).mean(-1, keepdims=True)
    return centred * lax.rsqrt(variance + 1e-5) * gain + bias


def layer_norm_gradient(x, gain, bias, upstream):
    return jax.vjp(layer_norm, x, gain, bias)[1](upstream)


def rbf_sums(x, y, weights):
    distances = jnp.square(x[:, None] - y[None]).sum(-1)
    return (jnp.exp(-distances) * weights).sum(-1)


def rotary(x, cos, sin):
    first, second = jnp.split(x, 2, -1)
    return x * cos + jnp.concatenate([-second, first], -1) * sin


def running_sum(x):
    return jnp.cumsum(x, -1)


def best_class(logits):
    return jnp.argmax(logits, -1)


def max_pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), "SAME")


_tree = {"w": _array(64, 32), "b": _array(32)}

GALLERY: dict[str, Exhibit] = {
    exhibit.f.__name__: exhibit
    for exhibit in (
        Exhibit(readme, (_array(), _array())),
        Exhibit(saxpy, (_array(), _array(1024), _array(1024))),
        Exhibit(gelu, (_array(128, 64),)),
        Exhibit(silu_bfloat16, (_array(1024, dtype="bfloat16"),)),
        Exhibit(black_scholes, (_array(1024), _array(1024), _array(1024), _array(), _array())),
        Exhibit(black_scholes_greeks, (_array(1024), _array(1024), _array(1024), _array(), _array())),
        Exhibit(adam, (_tree, _tree, _tree, _tree, _array())),
        Exhibit(haversine, (_array(1024), _array(1024), _array(), _array())),
        Exhibit(clip_and_count, (_array(1024), _array())),
        Exhibit(integer_mix, (_array(1024, dtype="int32"), _array(1024, dtype="int32"))),
        Exhibit(brighten, (_array(64, 64, 3, dtype="uint8"), _array())),
        Exhibit(edge_constants, (_array(16),)),
        Exhibit(softmax, (_array(256, 128),)),
        Exhibit(layer_norm, (_array(256, 128), _array(128), _array(128))),
        Exhibit(layer_norm_gradient, (_array(256, 128), _array(128), _array(128), _array(256, 128)), kernels=2),
        Exhibit(rbf_sums, (_array(512, 3), _array(512, 3), _array(512))),
        Exhibit(rotary, (_array(8, 256, 16, 64), _array(256, 1, 64), _array(256, 1, 64))),
        Exhibit(running_sum, (_array(256, 128),)),
        Exhibit(best_class, (_array(256, 128),)),
        Exhibit(max_pool, (_array(2, 16, 64, 64),)),
    )
}
"""Every exhibit by name."""
