"""`juju-opt`: parse, verify, transform and print the dialect, in the manner of `mlir-opt`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException, ParseError, VerifyException
from xdsl.xdsl_opt_main import xDSLOptMain

from juju.cli._group import CommandLineError, guarded

DESCRIPTION = (
    "Parse, verify, transform and print the juju dialect. Example: juju codegen model.py:f --args 'f32[8]' --emit mlir "
    "| juju-opt -p cse,dce --print-between-passes"
)

NO_FILE = "there is no file {path}"
NOT_MLIR = "{path} is not a .mlir file; give it that ending, or say -f mlir"
BAD_PASSES = "-p {passes!r}: {message}; the passes are {known}"


class JujuOptMain(xDSLOptMain):
    """`xdsl-opt` with the dialects and passes of juju, and nothing else. Used in-process by the tests."""

    version_format = "juju-opt on xdsl {xdsl_version}"

    def __init__(self, description: str = DESCRIPTION, args: Sequence[str] | None = None) -> None:
        super().__init__(description, args)

    def register_all_dialects(self) -> None:
        from juju.dialect import load_dialects

        load_dialects(self.ctx)

    def register_all_passes(self) -> None:
        from juju.passes import PASSES

        for name, juju_pass in PASSES.items():
            self.register_pass(name, lambda juju_pass=juju_pass: juju_pass)

    def setup_pipeline(self) -> None:
        """Also checks that values are defined before they are used, which xDSL's verifier does not.

        Raises:
            BadPasses: unknown passes, or options they do not have.
        """
        from juju.dialect import check_order

        try:
            super().setup_pipeline()
        except (ValueError, ArgSpecParseError) as error:  # the latter is a BaseException
            known = ", ".join(sorted(self.available_passes))
            message = " ".join(str(error).split())
            raise BadPasses(BAD_PASSES.format(passes=self.args.passes, message=message, known=known)) from error
        verify = self.pipeline.callback

        def callback(before: ModulePass | None, module: ModuleOp, after: ModulePass | None) -> None:
            if verify is not None:
                verify(before, module, after)
            if not self.args.disable_verify:
                check_order(module)

        self.pipeline = PassPipeline(self.pipeline.passes, callback)

    def output_resulting_program(self, prog: ModuleOp) -> str:
        return super().output_resulting_program(prog).rstrip("\n") + "\n"


class BadPasses(click.UsageError):
    """`-p` does not read."""


def main(args: Sequence[str] | None = None) -> None:
    """The console script: every error is one paragraph on stderr with exit code 1, or 2 for wrong usage."""
    arguments = list(sys.argv[1:] if args is None else args)
    plain = [argument for argument in arguments if argument != "--debug"]
    sys.exit(guarded(lambda: _run(plain), arguments))


def _run(arguments: Sequence[str]) -> int:
    try:
        tool = JujuOptMain(args=arguments)
    except SystemExit as stop:  # argparse has printed help, version or usage
        return stop.code if isinstance(stop.code, int) else 2
    file = tool.args.input_file
    if file and not Path(file).is_file():
        raise CommandLineError(NO_FILE.format(path=file))
    if file and Path(file).suffix != ".mlir" and not tool.args.frontend:
        raise CommandLineError(NOT_MLIR.format(path=file))
    try:
        tool.run()
    except ParseError as error:
        raise CommandLineError(str(error).strip()) from error
    except VerifyException as error:
        raise CommandLineError(f"{file or 'the input'} is not valid: {str(error).strip()}") from error
    except DiagnosticException as error:
        raise CommandLineError(f"a pass failed on {file or 'the input'}: {str(error).strip()}") from error
    return 0


if __name__ == "__main__":
    main()
