"""A JAX function compiled with MAX: the first example of the README."""

import jax.numpy as jnp

from juju import jit, make_max_graph


def jax_code(x, y):
    v = x + y
    v = v * v
    return jnp.sin(v)


print(make_max_graph(jax_code)(5, 10))

print(jit(jax_code)(5, 10).to_numpy())  # -0.930095

# Results are MAX buffers; with coerces_to_jnp they are jax arrays.
print(jit(jax_code, coerces_to_jnp=True)(jnp.arange(4.0), 10))
