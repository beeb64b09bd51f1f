"""`python -m juju.cli` is `juju`."""

from juju.cli import main

if __name__ == "__main__":
    main(prog_name="juju")
