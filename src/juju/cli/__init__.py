"""The command line: `juju` and `juju-opt`."""

from juju.cli._main import main as main
