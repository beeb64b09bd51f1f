"""All exceptions of juju, by who is at fault. Texts are constants of the module that raises them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class JujuError(Exception):
    """Base of every error juju raises on purpose."""


class ArgumentError(JujuError, TypeError):
    """The call: an argument that is not an array, a complex dtype, a device juju does not run on."""


class DeviceError(ArgumentError, ValueError):
    """The call: arrays that are committed to different devices, or lie on one juju does not run on."""


class DeletedArrayError(ArgumentError, RuntimeError):
    """The call: an array that was deleted or donated before."""


class SideEffectError(JujuError):
    """The user's function: it prints, calls back into Python, or mutates a reference."""


@dataclass(frozen=True)
class Offender:
    """One equation juju cannot compile: the primitive, its types, the user's line, and why."""

    primitive: str
    types: str
    where: str
    why: str


class UnsupportedPrimitive(JujuError, NotImplementedError):
    """The user's function: it uses primitives juju has no rule for. `offenders` lists each of them."""

    def __init__(self, message: str, offenders: Sequence[Offender] = ()) -> None:
        super().__init__(message)
        self.offenders = tuple(offenders)


class LeakedTracerError(JujuError):
    """The user's function: it reads or returns a tracer of a transformation that has ended."""


class PrimitiveError(JujuError):
    """The author's `juju.Primitive`: its lowering rule fails, or its rules disagree about the results."""


class ToolchainError(JujuError):
    """The environment: `mojo` or MAX is missing, or outside the tested range of versions."""


class KernelCompileError(JujuError):
    """Our text: the Mojo compiler refused it. Shows its line, the user's line, and where the text is kept."""


class KernelStatusError(JujuError, RuntimeError):
    """A kernel returned a status other than 0."""


class StoreError(JujuError):
    """The environment: the store on disk belongs to somebody else, or others may write to it."""


class StoreWarning(UserWarning):
    """The store on disk cannot be used; juju works without it, and compiles again in the next process."""


class ForkError(JujuError, RuntimeError):
    """The process was forked after juju had started; threads of the MAX runtime do not survive that."""


class InternalError(JujuError):
    """Our bug: please report it."""
