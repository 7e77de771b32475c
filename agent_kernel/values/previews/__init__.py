"""What history, diff and status show of a value, made without unpickling it or running its class's code.

A value is looked up by the identity of its type, never by `isinstance`: what is not exactly of a type listed in
`model`, and so may define anything, is named by its type alone (`foreign`). Everything read from a type or an
instance goes through the interpreter's own slots (`introspection`). Nothing here imports a library; its types are known once
the notebook has loaded it (`known`). What looks like a secret is masked (`redaction`), and no preview takes more than two
kilobytes (`model`). Modules load when a name of theirs is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_kernel.lazy_imports import import_lazily

if TYPE_CHECKING:
    from agent_kernel.text import MASK as MASK
    from agent_kernel.text import clean as clean
    from agent_kernel.text import size_text as size_text
    from agent_kernel.values.previews.model import LEAST as LEAST
    from agent_kernel.values.previews.model import MOST_BYTES as MOST_BYTES
    from agent_kernel.values.previews.model import Column as Column
    from agent_kernel.values.previews.model import Preview as Preview
    from agent_kernel.values.previews.model import content as content
    from agent_kernel.values.previews.model import count_changes as count_changes
    from agent_kernel.values.previews.model import count_of_columns as count_of_columns
    from agent_kernel.values.previews.model import decode as decode
    from agent_kernel.values.previews.model import encode as encode
    from agent_kernel.values.previews.model import growth as growth
    from agent_kernel.values.previews.model import interest as interest
    from agent_kernel.values.previews.model import is_picture as is_picture
    from agent_kernel.values.previews.model import line as line
    from agent_kernel.values.previews.model import lines_diff as lines_diff
    from agent_kernel.values.previews.model import make_preview as make_preview
    from agent_kernel.values.previews.model import noun as noun
    from agent_kernel.values.previews.model import noun_of_columns as noun_of_columns
    from agent_kernel.values.previews.model import outline as outline
    from agent_kernel.values.previews.redaction import CodeMask as CodeMask
    from agent_kernel.values.previews.redaction import holds_a_secret as holds_a_secret
    from agent_kernel.values.previews.redaction import is_telling as is_telling
    from agent_kernel.values.previews.redaction import mask_code as mask_code
    from agent_kernel.values.previews.redaction import mask_literals as mask_literals
    from agent_kernel.values.previews.redaction import mask_text as mask_text
    from agent_kernel.values.previews.redaction import mask_values as mask_values
    from agent_kernel.values.previews.redaction import names_a_secret as names_a_secret

__all__ = [
    "LEAST",
    "MASK",
    "MOST_BYTES",
    "CodeMask",
    "Column",
    "Preview",
    "clean",
    "content",
    "count_changes",
    "count_of_columns",
    "decode",
    "encode",
    "growth",
    "holds_a_secret",
    "interest",
    "is_picture",
    "is_telling",
    "line",
    "lines_diff",
    "make_preview",
    "mask_code",
    "mask_literals",
    "mask_text",
    "mask_values",
    "names_a_secret",
    "noun",
    "noun_of_columns",
    "outline",
    "size_text",
]

_HOMES = {
    "model": (
        "Column",
        "LEAST",
        "MOST_BYTES",
        "Preview",
        "content",
        "count_changes",
        "count_of_columns",
        "decode",
        "encode",
        "growth",
        "interest",
        "is_picture",
        "line",
        "lines_diff",
        "make_preview",
        "noun",
        "noun_of_columns",
        "outline",
    ),
    "redaction": (
        "holds_a_secret",
        "CodeMask",
        "is_telling",
        "mask_code",
        "mask_literals",
        "mask_text",
        "mask_values",
        "names_a_secret",
    ),
}
_TEXT = ("MASK", "clean", "size_text")
_HOME = dict.fromkeys(_TEXT, "agent_kernel.text") | {
    name: f"{__name__}.{module}" for module, names in _HOMES.items() for name in names
}


__getattr__ = import_lazily(__name__, _HOME)
