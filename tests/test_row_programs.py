"""Row programs and their gradients: one kernel each, with the results of `jax.jit` and of op-by-op JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from support import Batch, Case

RNG = np.random.default_rng(5)


def normal(*shape: int, dtype: Any = jnp.float32) -> jax.Array:
    return jnp.asarray(RNG.standard_normal(shape), dtype)


def layer_norm(x, gain, bias):
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5) * gain + bias


def rms_norm(x, gain):
    return x * lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6) * gain


def standardise(x, axes):
    return (x - x.mean(axes, keepdims=True)) / jnp.sqrt(x.var(axes, keepdims=True) + 1e-5)


def group_norm(x):
    n, c, h, w = x.shape
    return standardise(x.reshape(n, 2, c // 2, h, w), (2, 3, 4)).reshape(x.shape)


def cosine(a, b):
    return (a * b).sum(-1) / jnp.sqrt((a * a).sum(-1) * (b * b).sum(-1))


def unit(x):
    return x / jnp.sqrt(jnp.square(x).sum(-1, keepdims=True) + 1e-6)


def dense_cross_entropy(logits, labels):
    return -(labels * jax.nn.log_softmax(logits)).sum(-1)


def label_cross_entropy(logits, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], -1)[:, 0]


def smoothed(logits, labels):
    targets = jax.nn.one_hot(labels, logits.shape[-1]) * 0.9 + 0.1 / logits.shape[-1]
    return dense_cross_entropy(logits, targets)


def attention(scores, mask, bias):
    return jax.nn.softmax(jnp.where(mask, scores / 8 + bias, -1e9), -1)


def squared_distances(x, y):
    return ((x[:, None] - y[None]) ** 2).sum(-1)


def rbf_sums(x, y, weights):
    return (jnp.exp(-squared_distances(x, y)) * weights).sum(-1)


def forces(places, masses):
    apart = places[None] - places[:, None]
    return (apart * (masses * lax.rsqrt((apart * apart).sum(-1) + 1e-3) ** 3)[..., None]).sum(1)


def mixture(x, means):
    return jax.nn.logsumexp(-0.5 * squared_distances(x, means), -1)


def gradient(f: Callable[..., Any], *wrt: int) -> Callable[..., Any]:
    """The derivative along a given direction, as backpropagation computes it."""

    def backward(upstream: Any, *args: Any) -> Any:
        def of(*chosen: Any) -> Any:
            full = list(args)
            for n, value in zip(wrt or (0,), chosen, strict=True):
                full[n] = value
            return f(*full)

        return jax.vjp(of, *(args[n] for n in wrt or (0,)))[1](upstream)

    return backward


X, G, B = normal(7, 40), normal(40), normal(40)
LABELS = jnp.asarray(RNG.integers(0, 40, 7), jnp.int32)
DENSE = jax.nn.softmax(normal(7, 40))
IMAGE = normal(2, 4, 5, 6)
UP = normal(7, 40)
SCORES, MASK, BIAS = normal(2, 3, 9, 11), jnp.asarray(RNG.random((9, 11)) > 0.3), normal(3, 9, 11)


def case(name: str, f: Callable[..., Any], *args: Any, kernels: int = 1, scale: float = 3e-6) -> Case:
    return Case(name, f, args, ulp=4, scale=scale, kernels=kernels)


CASES = [
    case("softmax", jax.nn.softmax, X),
    case("softmax, gradient", gradient(jax.nn.softmax), UP, X),
    case("softmax of columns", lambda x: jax.nn.softmax(x, 0), X),
    case("softmax of columns, gradient", gradient(lambda x: jax.nn.softmax(x, 0)), UP, X),
    case("softmax of one column", jax.nn.softmax, normal(9, 1)),
    case("softmax of three columns", jax.nn.softmax, normal(50, 3)),
    case("softmax, bfloat16", jax.nn.softmax, normal(7, 40, dtype=jnp.bfloat16), scale=8e-3),
    case("log_softmax", jax.nn.log_softmax, X),
    case("log_softmax, gradient", gradient(jax.nn.log_softmax), UP, X),
    case("logsumexp", lambda x: jax.nn.logsumexp(x, -1), X),
    case("logsumexp, gradient", gradient(lambda x: jax.nn.logsumexp(x, -1)), normal(7), X),
    case("layer norm", layer_norm, X, G, B),
    case("layer norm, gradient of x", gradient(layer_norm), UP, X, G, B),
    # Sums along the rows need the rows' moments first, so gain and bias take a second kernel.
    case("layer norm, gradient", gradient(layer_norm, 0, 1, 2), UP, X, G, B, kernels=2),
    case("RMS norm", rms_norm, X, G),
    case("RMS norm, gradient of x", gradient(rms_norm), UP, X, G),
    case("RMS norm, gradient", gradient(rms_norm, 0, 1), UP, X, G, kernels=2),
    case("standardise", lambda x: standardise(x, -1), X),
    case("standardise, gradient", gradient(lambda x: standardise(x, -1)), UP, X, scale=1e-5),
    case("group norm", group_norm, IMAGE),
    case("group norm, gradient", gradient(group_norm), normal(2, 4, 5, 6), IMAGE, scale=1e-5),
    case("batch norm", lambda x: standardise(x, (0, 2, 3)), IMAGE),
    case("batch norm, gradient", gradient(lambda x: standardise(x, (0, 2, 3))), normal(2, 4, 5, 6), IMAGE, scale=1e-5),
    case("instance norm", lambda x: standardise(x, (2, 3)), IMAGE),
    case("instance norm, gradient", gradient(lambda x: standardise(x, (2, 3))), normal(2, 4, 5, 6), IMAGE, scale=1e-5),
    case("cross entropy", dense_cross_entropy, X, DENSE),
    case("cross entropy, gradient", gradient(dense_cross_entropy), normal(7), X, DENSE),
    case("cross entropy of labels", label_cross_entropy, X, LABELS),
    case("label smoothing", smoothed, X, LABELS),
    case("label smoothing, gradient", gradient(smoothed), normal(7), X, LABELS),
    case("top 1", lambda x, y: jnp.argmax(x, -1) == y, X, LABELS),
    case("variance", lambda x: (x.mean(-1), x.var(-1), x.std(-1)), X),
    case("variance, gradient", gradient(lambda x: x.var(-1)), normal(7), X),
    case("cosine similarity", cosine, X, UP),
    case("cosine similarity, gradient", gradient(cosine, 0, 1), normal(7), X, UP, scale=1e-5),
    case("unit rows", unit, X),
    case("unit rows, gradient", gradient(unit), UP, X),
    case("attention weights", attention, SCORES, MASK, BIAS),
    case("attention weights, gradient", gradient(attention), normal(2, 3, 9, 11), SCORES, MASK, BIAS),
    case("several reductions of one array", lambda x: (x.sum(-1), x.max(-1), x.min(-1), (x * x).sum(-1)), X),
    case("sum, then quotient", lambda x: x / x.sum(), X),
    case("pairwise distances", squared_distances, normal(40, 3), normal(33, 3)),
    case("RBF sums", rbf_sums, normal(40, 3), normal(33, 3), G[:33]),
    case("n-body forces", forces, normal(40, 3), jnp.abs(G), scale=1e-5),
    case("nearest centre", lambda x, c: jnp.argmin(squared_distances(x, c), -1), normal(70, 3), normal(16, 3)),
    case("mixture of Gaussians", mixture, normal(40, 3), normal(20, 3)),
    case("rotary embedding", lambda x: jnp.concatenate([-x[:, 20:], x[:, :20]], -1) * G + x, X),
    case("cumulative share", lambda x: jnp.cumsum(x, -1) / x.sum(-1, keepdims=True), jnp.abs(X)),
    case("one hot", lambda y: jax.nn.one_hot(y, 12), LABELS),
    case("stack of computed parts", lambda x: jnp.stack([jnp.sin(x), jnp.cos(x), jnp.tanh(x)], -1), normal(50)),
    case("average pool", lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 1, 2, 2), (1, 1, 2, 2), "VALID") / 4, IMAGE),
]

BATCH = Batch(CASES)


@BATCH.parametrize()
def test_row_program(name: str) -> None:
    BATCH.check(name)


def test_operations_one_by_one_agree() -> None:
    """`jax.jit` is not the only witness: JAX without compilation gives the same."""
    for program in CASES[:12]:
        got = BATCH[program.name].call_flat(list(program.args))
        with jax.disable_jit():
            want = program.f(*program.args)
        for g, w in zip(jax.tree_util.tree_leaves(got), jax.tree_util.tree_leaves(want), strict=True):
            np.testing.assert_allclose(np.asarray(g, np.float64), np.asarray(w, np.float64), rtol=1e-2, atol=1e-5)
