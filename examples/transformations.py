"""JAX transformations go inside `jit`: the transformed function is what MAX compiles."""

import jax
import jax.numpy as jnp

from juju import jit


def jax_code(x, y):
    v = x + y
    v = v * v
    return jnp.sin(v)


def square(x):
    return x**2


print(jit(jax.grad(jax_code))(5.0, 10.0).to_numpy())  # 11.019581

print(jit(jax.vmap(square))(jnp.array([1.0, 2.0, 3.0])).to_numpy())

print(jit(jax.vmap(jax.grad(square)))(jnp.array([1.0, 2.0, 3.0])).to_numpy())
