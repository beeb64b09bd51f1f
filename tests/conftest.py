"""What all tests share: the cache they use, hypothesis profiles, and a last line that hides nothing.

Tests compile into the user's normal store, or into JUJU_CACHE_DIR if that is set, so a second run compiles little. A
test about the store itself makes its own (`tmp_path`), and never touches the normal one.
"""

from __future__ import annotations

import os
import sys
from importlib import metadata

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("default", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, print_blob=True)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="write generated/ again; `make golden` does that")


def pytest_report_header(config: pytest.Config) -> list[str]:
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("jax", "max", "mojo", "xdsl"))
    store = os.environ.get("JUJU_CACHE_DIR") or "the user's own cache directory"
    return [f"juju: {versions}, Python {sys.version.split()[0]}, {os.cpu_count()} cores", f"store: {store}"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says in so many words how much was not run or is known to fail."""
    counts = {kind: len(terminalreporter.stats.get(kind, ())) for kind in ("skipped", "xfailed", "deselected")}
    terminalreporter.write_line(
        f"not run: {counts['skipped']} skipped, {counts['deselected']} deselected; "
        f"known to fail: {counts['xfailed']} xfailed"
    )
