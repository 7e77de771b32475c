"""What history, diff and status show of a value, made without unpickling it or running its class's code.

A value is looked up by the identity of its type, never by `isinstance`: what is not exactly of a type listed in
`dispatch`, and so may define anything, is named by its type alone (`foreign`). Everything read from a type or an
instance goes through the interpreter's own slots (`reading`). Nothing here imports a library; its types are known once
the notebook has loaded it (`known`). What looks like a secret is masked (`masking`), and no summary takes more than two
kilobytes (`model`).
"""

from agent_kernel.values.summaries.dispatch import summarize
from agent_kernel.values.summaries.lines import line, lines_diff
from agent_kernel.values.summaries.masking import holds_a_secret, names_a_secret
from agent_kernel.values.summaries.model import MOST_BYTES, Column, Summary, decode, encode
from agent_kernel.values.summaries.wording import MASK, clean, size_text

__all__ = [
    "MASK",
    "MOST_BYTES",
    "Column",
    "Summary",
    "clean",
    "decode",
    "encode",
    "holds_a_secret",
    "line",
    "lines_diff",
    "names_a_secret",
    "size_text",
    "summarize",
]
