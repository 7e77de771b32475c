"""Whether code that a person typed for a step reads as code at all: asked before it is taken for a decision."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable

from agent_kernel.verbs.parsing import UsageProblem

__all__ = ["check_code"]


def check_code(code: str, transformed: Callable[[str], str]) -> None:
    """Raise UsageProblem where it is no code.

    Args:
        transformed: what turns magics and shell lines into Python.
    """
    if not code.strip():
        raise UsageProblem("there is no code; nothing was decided")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(
                transformed(code),
                "<step>",
                "exec",
                ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
                dont_inherit=True,
            )
    except SyntaxError as error:
        at = f"line {error.lineno}: " if error.lineno else ""
        raise UsageProblem(f"{at}{type(error).__name__}: {error.msg}; nothing was decided") from None
    except (ValueError, RecursionError, MemoryError) as error:  # null characters, too deep
        raise UsageProblem(f"{type(error).__name__}: {error}; nothing was decided") from None
