"""Where `templates/` and `kernels/` are: inside the wheel, or beside `src/` in a checkout."""

from __future__ import annotations

from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


@cache
def resource_dir(name: str) -> Path:
    """The folder `templates` or `kernels`. Raises `FileNotFoundError` if the installation is incomplete."""
    for candidate in (PACKAGE / "_data" / name, PACKAGE.parents[1] / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"juju is installed without its '{name}' folder; install it again")
