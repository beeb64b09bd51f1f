"""From Mojo text to loaded machine code: the toolchain, the compiler, and the store on disk."""

from juju.build.compiler import build_kernels, emit
from juju.build.packages import helper_package, kernel_key, package_digest, precompile
from juju.build.process import compiler_runs
from juju.build.progress import BuildEvent, Progress
from juju.build.store import Built, Store, StoreEntry, StoreStats, default_store
from juju.build.toolchain import Toolchain, toolchain

__all__ = [
    "BuildEvent",
    "Built",
    "Progress",
    "Store",
    "StoreEntry",
    "StoreStats",
    "Toolchain",
    "build_kernels",
    "compiler_runs",
    "default_store",
    "emit",
    "helper_package",
    "kernel_key",
    "package_digest",
    "precompile",
    "toolchain",
]
