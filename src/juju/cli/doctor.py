"""`juju doctor`: is everything there that juju needs, and does a real kernel run?"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click
from rich.text import Text

from juju.cli._console import BuildProgress, Waiting, bytes_text, out, seconds_text
from juju.cli._group import JujuCommand, package_version
from juju.errors import JujuError

PYTHON_TESTED = ((3, 11), (3, 13))
JAX_TESTED = ("0.10", "0.13")
XDSL_TESTED = ("0.75", "0.76")
LOW_SPACE = 200 << 20

Verdict = Literal["ok", "warning", "failed"]
MARKS = {"ok": ("ok  ", "green"), "warning": ("warn", "yellow"), "failed": ("FAIL", "bold red")}


@dataclass(frozen=True)
class Check:
    """One line of the report. `remedy` says what to do, if there is something to do."""

    name: str
    verdict: Verdict
    found: str
    remedy: str = ""


@click.command(
    cls=JujuCommand,
    short_help="Is this machine ready? Check everything.",
    examples=("juju doctor", "JUJU_CACHE_DIR=/tmp/elsewhere juju doctor"),
)
@click.pass_context
def doctor(ctx: click.Context) -> None:
    """Check everything juju needs, down to a real kernel that is compiled, run and compared with jax.jit.

    Exit code 1 if a check failed; every failure says what to do.
    """
    worst: list[Verdict] = []
    for check in checks():
        out().print(_line(check), soft_wrap=True)
        worst.append(check.verdict)
    failed, warned = worst.count("failed"), worst.count("warning")
    if failed:
        out().print(Text(f"{failed} of {len(worst)} checks failed", style="bold red"))
        ctx.exit(1)
    out().print(
        Text(f"all {len(worst)} checks passed" + (f", {warned} with a warning" if warned else ""), style="bold")
    )


def checks() -> Iterator[Check]:
    """All checks in order, each done when it is asked for. What depends on a failed one is left out."""
    yield check_python()
    yield check_version("jax", JAX_TESTED)
    yield check_version("xdsl", XDSL_TESTED)
    tools = guarded_check("toolchain", check_toolchain)
    yield tools
    yield guarded_check("juju's files", check_files)
    store = guarded_check("cache directory", check_store)
    yield store
    if "failed" in (tools.verdict, store.verdict):
        return
    compiled = guarded_check("compiler", check_compiler)
    yield compiled
    if compiled.verdict != "failed":
        yield guarded_check("kernel", check_kernel)


def guarded_check(name: str, check: Callable[[], Check]) -> Check:
    """Runs a check; whatever it raises is its failure, with juju's own words as they are."""
    try:
        return check()
    except JujuError as error:
        return Check(name, "failed", str(error))
    except Exception as error:
        return Check(name, "failed", f"{type(error).__name__}: {error}", "please report this")


def check_python() -> Check:
    low, high = PYTHON_TESTED
    found = f"{sys.version.split()[0]} at {sys.executable}"
    if low <= sys.version_info[:2] <= high:
        return Check("Python", "ok", found)
    wanted = f"use Python {low[0]}.{low[1]} to {high[0]}.{high[1]}"
    return Check("Python", "failed", found, wanted)


def check_version(package: str, tested: tuple[str, str]) -> Check:
    """The installed version of a package against the tested range `low <= version < high`."""
    low, high = tested
    found = package_version(package)
    numbers = re.match(r"(\d+)\.(\d+)", found)
    bounds = [tuple(int(n) for n in bound.split(".")) for bound in tested]
    if numbers and bounds[0] <= (int(numbers[1]), int(numbers[2])) < bounds[1]:
        return Check(package, "ok", f"{found} (tested: >={low},<{high})")
    return Check(package, "failed", f"{found} (tested: >={low},<{high})", f"pip install '{package}>={low},<{high}'")


def check_toolchain() -> Check:
    from juju.build.toolchain import MAX_TESTED, MOJO_TESTED, toolchain

    tools = toolchain()
    found = (
        f"mojo {tools.mojo_version} (tested: >={MOJO_TESTED[0]},<{MOJO_TESTED[1]}), "
        f"max {tools.max_version} (tested: >={MAX_TESTED[0]},<{MAX_TESTED[1]}), "
        f"for {tools.target_cpu}, at {tools.mojo}"
    )
    if tools.linker is None and shutil.which("cc") is None:
        return Check("toolchain", "failed", f"{found}; no linker", "install a C compiler (for its linker), e.g. gcc")
    return Check("toolchain", "ok", found)


def check_files() -> Check:
    from juju._resources import resource_dir

    folders = [resource_dir(name) for name in ("templates", "kernels")]
    empty = [str(folder) for folder in folders if not any(folder.iterdir())]
    if empty:
        return Check("juju's files", "failed", f"{', '.join(empty)}: empty", "install juju again")
    return Check("juju's files", "ok", ", ".join(map(str, folders)))


def check_store() -> Check:
    from juju.build import default_store

    store = default_store()
    check = check_folder(store.root)
    if check.verdict == "failed":
        return check
    return dataclasses.replace(check, found=f"{check.found}, {bytes_text(store.stats().bytes)} used")


def check_folder(root: Path) -> Check:
    """The cache directory: ours, closed to others, writable, with room."""
    name = "cache directory"
    existing = next(folder for folder in (root, *root.parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    found = f"{root}, {bytes_text(free)} free"
    if existing != root:
        found += ", made at the first use"
    else:
        info = root.stat()
        found += f", mode {stat.S_IMODE(info.st_mode):04o}"
        if info.st_uid != os.getuid():
            return Check(name, "failed", f"{found}, belongs to user {info.st_uid}", "set JUJU_CACHE_DIR to your own")
        if info.st_mode & 0o022:
            return Check(name, "failed", f"{found}: others may write to it", f"chmod 700 '{root}'")
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        remedy = "set JUJU_CACHE_DIR to a directory you may write to; until then every process compiles again"
        return Check(name, "failed", f"{found}, not writable: {error.strerror}", remedy)
    if free < LOW_SPACE:
        return Check(name, "warning", found, "free some space, or empty it with: juju cache clear")
    return Check(name, "ok", found)


def plain(x, y):
    """The function that is compiled anew: arithmetic only, so that it needs no helper package but the smallest."""
    return x * 2 + y


def real(x, y):
    """The function that is run."""
    import jax.numpy as jnp

    return jnp.where(x > y, jnp.tanh(x) * 2, y - 1)


def check_compiler() -> Check:
    """Compiles a kernel anew, into a store that is thrown away."""
    import jax
    import jax.numpy as jnp

    import juju
    from juju.build import Store, build_kernels

    struct = jax.ShapeDtypeStruct((1000,), jnp.float32)
    kernels = juju.fuse(plain, name="doctor").lower(struct, struct).kernels
    with tempfile.TemporaryDirectory(prefix="juju-doctor-") as folder, Waiting("compiling a kernel"):
        start = time.perf_counter()
        built = build_kernels(kernels, store=Store(Path(folder)))
        taken = time.perf_counter() - start
        size = sum(one.path.stat().st_size for one in built)
    return Check("compiler", "ok", f"a new kernel compiled in {seconds_text(taken)} ({bytes_text(size)})")


def check_kernel() -> Check:
    """Runs a kernel through the normal store and the engine; compares with jax.jit."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    import juju
    from juju.cli.demo import TOLERANCE, largest_difference

    x = jnp.asarray(np.linspace(-3, 3, 1001, dtype=np.float32))
    y = x[::-1]
    with BuildProgress() as progress:
        exe = juju.fuse(real, name="doctor").lower(x, y).compile(progress=progress)
    start = time.perf_counter()
    actual = exe(x, y)
    taken = time.perf_counter() - start
    difference = largest_difference(actual, jax.jit(real)(x, y))
    found = f"ran in {seconds_text(taken)}, {difference:.1e} from jax.jit"
    if difference > TOLERANCE:
        return Check("kernel", "failed", found, "results are wrong: please report this")
    return Check("kernel", "ok", found)


def _line(check: Check) -> Text:
    mark, style = MARKS[check.verdict]
    line = Text.assemble((mark, style), f"  {check.name:<16}", check.found)
    if check.remedy:
        line.append(f"\n{'':22}do: {check.remedy}", style="bold" if check.verdict == "failed" else "")
    return line
