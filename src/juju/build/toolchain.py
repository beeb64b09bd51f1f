"""Which Mojo and MAX there are, whether juju was tested with them, and what they compile for."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from juju.errors import ToolchainError

MOJO_TESTED = ("1.2", "1.3")
MAX_TESTED = ("26.7", "26.8")

NO_MOJO = (
    "juju needs the Mojo compiler and found none: no 'mojo' beside {python}, on PATH, or in an installed Mojo package. "
    "Install it with: pip install 'mojo>={low},<{high}'"
)
NO_MAX = (
    "juju needs MAX and the Python package 'max' is not installed. Install it with: pip install 'max>={low},<{high}'"
)
UNTESTED = (
    "juju was tested with {what} >={low},<{high} and found {what} {found} ({where}). "
    "Install a tested one with: pip install '{what}>={low},<{high}'"
)
NO_VERSION = "juju cannot tell the version of the Mojo compiler {path}: '{path} --version' said {said!r}"

_CPU_FIELDS = ("vendor_id", "cpu family", "model", "flags", "CPU implementer", "CPU variant", "CPU part", "Features")


@dataclass(frozen=True)
class Toolchain:
    """The compiler juju uses: where it is, its version, MAX's version, and the processor it compiles for.

    `linker` is Mojo's own `lld`; without it (and outside Linux) `mojo build` calls the system's `cc`.
    """

    mojo: Path
    mojo_version: str
    max_version: str
    target_cpu: str
    linker: Path | None

    @property
    def fingerprint(self) -> str:
        """The name of this toolchain's folder in the store, safe in a path."""
        return re.sub(r"[^A-Za-z0-9._+-]", "_", f"{self.mojo_version}-{self.max_version}-{self.target_cpu}")


@cache
def toolchain() -> Toolchain:
    """The toolchain of this Python environment, found once per process.

        toolchain().fingerprint     # '1.2.0-26.7.0-x86_64-3f1c9a0b72de'

    Starts no process if Mojo was installed as a Python package. Raises `ToolchainError` if Mojo or MAX is missing, or
    outside the range of versions juju was tested with.
    """
    mojo = _find_mojo()
    mojo_version = _mojo_version(mojo)
    _require("mojo", mojo_version, MOJO_TESTED, str(mojo))
    try:
        max_version = metadata.version("max")
    except metadata.PackageNotFoundError:
        raise ToolchainError(NO_MAX.format(low=MAX_TESTED[0], high=MAX_TESTED[1])) from None
    _require("max", max_version, MAX_TESTED, "Python package")
    linker = mojo.parent / "lld"
    return Toolchain(
        mojo=mojo,
        mojo_version=mojo_version,
        max_version=max_version,
        target_cpu=_target_cpu(),
        linker=linker if sys.platform == "linux" and _is_program(linker) else None,
    )


@cache
def runtime_library() -> Path | None:
    """Mojo's run-time library, which a kernel that allocates needs; it lies where the real compiler is."""
    name = "libKGENCompilerRTShared.so"
    places = [toolchain().mojo.resolve().parent.parent / "lib" / name]
    for package in ("mojo-compiler", "max-core", "max"):
        try:
            files = metadata.files(package) or []
        except metadata.PackageNotFoundError:
            continue
        places += [Path(str(f.locate())) for f in files if f.name == name]
    return next((place for place in places if place.is_file()), None)


def _find_mojo() -> Path:
    if sys.executable and _is_program(beside := Path(sys.executable).parent / "mojo"):
        return beside
    if on_path := shutil.which("mojo"):
        return Path(os.path.abspath(on_path))
    for script in _package_scripts():
        if _is_program(script):
            return script
    raise ToolchainError(NO_MOJO.format(python=sys.executable, low=MOJO_TESTED[0], high=MOJO_TESTED[1]))


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _package_scripts() -> list[Path]:
    """The `mojo` commands that Python packages say they installed."""
    scripts = []
    for package in ("mojo-compiler", "mojo"):
        try:
            files = metadata.files(package) or []
        except metadata.PackageNotFoundError:
            continue
        # `modular/bin/mojo` is the compiler itself; it needs the environment that the script beside Python sets.
        found = [f for f in files if f.name == "mojo" and f.parent.name == "bin" and "modular" not in f.parts]
        scripts += [Path(os.path.abspath(str(f.locate()))) for f in found]
    return scripts


def _mojo_version(mojo: Path) -> str:
    scripts = {os.path.dirname(sys.executable or ""), sysconfig.get_path("scripts")}
    if str(mojo.parent) in scripts or mojo in _package_scripts():
        for package in ("mojo-compiler", "mojo"):
            try:
                return metadata.version(package)
            except metadata.PackageNotFoundError:
                continue
    try:
        said = subprocess.run([mojo, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(NO_VERSION.format(path=mojo, said=str(error))) from error
    if match := re.search(r"\d+\.\d+[\w.+-]*", said):
        return match[0]
    raise ToolchainError(NO_VERSION.format(path=mojo, said=said.strip()))


def _require(what: str, found: str, tested: tuple[str, str], where: str) -> None:
    low, high = tested
    if not _release(low) <= _release(found) < _release(high):
        raise ToolchainError(UNTESTED.format(what=what, found=found, where=where, low=low, high=high))


def _release(version: str) -> tuple[int, ...]:
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else (-1,)


def _target_cpu() -> str:
    """Identifies the processor `mojo build` compiles for: its architecture, and a digest of its model and features."""
    try:
        # Only the first processor's paragraph: the file of a big machine takes milliseconds to read.
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as cpuinfo:
            lines = []
            for line in cpuinfo:
                if not line.strip():
                    break
                lines.append(line)
        fields = [":".join(part.strip() for part in line.split(":", 1)) for line in lines]
        described = [field for field in fields if field.split(":", 1)[0] in _CPU_FIELDS]
    except FileNotFoundError:  # not Linux
        described = [platform.platform(), platform.version()]
    digest = hashlib.sha256("\n".join(described).encode()).hexdigest()
    return f"{platform.machine() or 'cpu'}-{digest[:12]}"
