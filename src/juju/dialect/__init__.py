"""The `juju` MLIR dialect: scalar operations from one table, nests, kernels."""

from juju.dialect._xdsl import check_order as check_order
from juju.dialect._xdsl import make_context as make_context
from juju.dialect._xdsl import parse_text as parse_text
from juju.dialect._xdsl import print_text as print_text
from juju.dialect.ops import JUJU as JUJU


def load_dialects(ctx) -> None:
    """Loads `builtin`, `func` and `juju` into an xDSL context."""
    from xdsl.dialects.builtin import Builtin
    from xdsl.dialects.func import Func

    for dialect in (Builtin, Func, JUJU):
        ctx.load_dialect(dialect)
