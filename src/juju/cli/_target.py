"""TARGET on the command line: `path.py:name` or `module:name` becomes a function."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from juju.cli._group import CommandLineError

FORM = "{spec!r} is not a target; write 'path/to/file.py:function' or 'package.module:function'{found}"
NO_FILE = "there is no file {path}; the target was {spec!r}"
NO_MODULE = (
    "there is no module {module!r} (looked in the current directory and in the Python at {python}); a file is given "
    "with its path, as in 'path/to/file.py:function'"
)
IMPORT_FAILED = "{path} cannot be imported: {kind}: {message}{where}"
NO_NAME = "{path} has no {name!r}{hint}"
NOT_CALLABLE = "{name!r} in {path} is {kind}, not a function"
RAISED = "{name} raised {kind} while it was traced: {message}{where}"


@dataclass(frozen=True)
class Target:
    """A function of the user's, and where it came from."""

    name: str
    function: Callable[..., Any]
    path: str

    @property
    def fused(self) -> bool:
        """True if the function was decorated with `juju.fuse`."""
        return is_fused(self.function)

    @property
    def file_stem(self) -> str:
        """The name as part of a file name."""
        return re.sub(r"\W+", "_", self.name).strip("_") or "function"


def is_fused(value: Any) -> bool:
    """True for what `juju.fuse` returns."""
    return callable(value) and hasattr(value, "lower") and hasattr(value, "example_args")


def load_target(spec: str) -> Target:
    """Imports what `spec` names.

    Raises:
        click.UsageError: `spec` is not of the form FILE:NAME.
        CommandLineError: no such file, module or name; the import failed; it is not a function.
    """
    place, separator, name = spec.rpartition(":")
    if not separator or not place or not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", name):
        raise click.UsageError(FORM.format(spec=spec, found=_candidates(spec)))
    module = load_module(place, spec)
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            raise CommandLineError(NO_NAME.format(path=place, name=name, hint=_hint(part, value)))
        value = getattr(value, part)
    if not callable(value):
        raise CommandLineError(NOT_CALLABLE.format(name=name, path=place, kind=_a(type(value).__name__)))
    return Target(name, value, place)


def load_module(place: str, spec: str) -> ModuleType:
    """Imports a file or a module by its dotted name; a file inside a package is imported as part of it."""
    path = Path(place).expanduser()
    try:
        if path.suffix == ".py" or "/" in place or path.is_file():
            if not path.is_file():
                raise CommandLineError(NO_FILE.format(path=path, spec=spec))
            return _import_file(path.resolve())
        if str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        return importlib.import_module(place)
    except CommandLineError:
        raise
    except ModuleNotFoundError as error:
        if error.name and (place == error.name or place.startswith(error.name + ".")):
            raise CommandLineError(NO_MODULE.format(module=place, python=sys.executable)) from error
        raise CommandLineError(_import_failed(place, error)) from error
    except Exception as error:
        raise CommandLineError(_import_failed(place, error)) from error


def user_error(target: Target, error: Exception) -> CommandLineError:
    """An error that the user's own function raised, as one paragraph with the line."""
    file = getattr(sys.modules.get(getattr(target.function, "__module__", "")), "__file__", None)
    return CommandLineError(
        RAISED.format(
            name=target.name, kind=type(error).__name__, message=_first_paragraph(error), where=_where(error, file)
        )
    )


def _import_file(path: Path) -> ModuleType:
    root, names = path.parent, [path.stem]
    while (root / "__init__.py").is_file():
        names.insert(0, root.name)
        root = root.parent
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    if len(names) > 1:
        return importlib.import_module(".".join(names).removesuffix(".__init__"))
    taken = path.stem in sys.modules or path.stem in sys.stdlib_module_names or not path.stem.isidentifier()
    name = f"_juju_target_{path.stem}" if taken else path.stem
    found = importlib.util.spec_from_file_location(name, path)
    if found is None or found.loader is None:
        raise CommandLineError(IMPORT_FAILED.format(path=path, kind="ImportError", message="not Python", where=""))
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    try:
        found.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _import_failed(place: str, error: Exception) -> str:
    if isinstance(error, SyntaxError):
        where = f" (line {error.lineno})" if error.lineno else ""
        return IMPORT_FAILED.format(path=error.filename or place, kind="SyntaxError", message=error.msg, where=where)
    return IMPORT_FAILED.format(
        path=place, kind=type(error).__name__, message=_first_paragraph(error), where=_where(error, None)
    )


def _where(error: Exception, file: str | None) -> str:
    """` (model.py:12)`: the innermost frame in `file`, or in no library."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        theirs = frame.filename == file if file else "site-packages" not in frame.filename
        if theirs and not frame.filename.startswith(("<", str(Path(__file__).parents[1]), str(Path(sys.base_prefix)))):
            return f" ({frame.filename}:{frame.lineno})"
    return ""


def _first_paragraph(error: Exception) -> str:
    return " ".join(str(error).strip().split("\n\n")[0].split())


def _hint(name: str, module: Any) -> str:
    names = [n for n in dir(module) if not n.startswith("_") and callable(getattr(module, n, None))]
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    fused = _fused_names(module)
    return f"; it has {_list(fused)} decorated with juju.fuse" if fused else ""


def _candidates(spec: str) -> str:
    path = Path(spec).expanduser()
    if not (path.suffix == ".py" and path.is_file()):
        return ""
    fused = _fused_names(load_module(spec, spec))
    return f"; {spec} has {_list([f'{spec}:{name}' for name in fused])}" if fused else ""


def _fused_names(module: Any) -> list[str]:
    return [name for name, value in vars(module).items() if is_fused(value)] if hasattr(module, "__dict__") else []


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiouAEIOU" else f"a {noun}"
