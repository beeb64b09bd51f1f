"""`juju`: compile, inspect and look after what is compiled."""

from __future__ import annotations

import click

from juju.cli._group import JujuGroup, print_version
from juju.cli.cache import cache
from juju.cli.codegen import codegen
from juju.cli.demo import demo
from juju.cli.doctor import doctor
from juju.cli.explain import explain
from juju.cli.primitives import primitives


@click.group(cls=JujuGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=print_version, help="Show versions and exit."
)
def main() -> None:
    """Compile JAX functions into fused Mojo kernels, and look at what they became.

    \b
    Start with:
      juju doctor                              is this machine ready?
      juju demo                                a few real functions, timed against jax.jit
      juju codegen model.py:f --args 'f32[8]'  the Mojo kernel of your function
      juju explain model.py:f --args 'f32[8]'  what became one kernel, what did not, and why

    Every command explains itself with --help.
    """


for command in (codegen, explain, doctor, cache, demo, primitives):
    main.add_command(command)
