"""Text in, text out: each file under `filecheck/` says on its first line how it is run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser

from juju.cli.opt import JujuOptMain

CASES = sorted((Path(__file__).parent / "filecheck").rglob("*.mlir"))


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_filecheck(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = re.search(r"RUN: juju-opt %s (.*?) *\| *filecheck", case.read_text())
    assert run is not None, "the first line says how the file is run"
    JujuOptMain(args=[str(case), *shlex.split(run[1])]).run()
    out = capsys.readouterr().out
    options = Options(match_filename=str(case))
    assert Matcher(options, FInput("output", out), Parser.from_opts(options)).run() == 0, out
