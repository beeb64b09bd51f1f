"""What `juju.jit` remembers: a call compiles once for each combination of types, pytree and static arguments."""

import time

import jax.numpy as jnp

from juju import jit


def timing(f):
    def wrap(*args, **kwargs):
        start = time.perf_counter()
        result = f(*args, **kwargs)
        print(f"{(time.perf_counter() - start) * 1e3:.3f} ms")
        return result

    return wrap


@jit
def jax_code(x, y):
    v = x + y
    v = v * v
    return jnp.sin(v)


timing(jax_code)(5, 10)  # compiles, or loads what an earlier run compiled
timing(jax_code)(5, 10)
timing(jax_code)(5, 11)  # other values, same types
timing(jax_code)(jnp.ones(1000), 11)  # another type


@jit(static_argnames="power")
def update(parameters, rate, power):
    return {name: value - rate * value**power for name, value in parameters.items()}


results = update({"w": jnp.ones(3), "b": 2.0}, 0.5, power=2)
print(results["w"].to_numpy(), results["b"].to_numpy())
