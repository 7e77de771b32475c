"""Summaries of torch tensors.

Values are read from plain tensors in main memory only: a GPU would have to be waited for, and a meta or sparse tensor
has none at hand. While anyone's function or dispatch mode is on, even `shape` would be its code, so torch's own
switch turns the one off and the other leaves the tensor unread.
"""

from __future__ import annotations

from typing import Any

from agent_kernel.values.summaries.arrays import values_text
from agent_kernel.values.summaries.model import Summary
from agent_kernel.values.summaries.reading import loaded, shallow_size, type_name
from agent_kernel.values.summaries.wording import MASK

_FEW = 7
_NUMBER_NAMES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"
_NUMBERS = frozenset(_NUMBER_NAMES.split())


def tensor(value: Any, hide: bool) -> Summary:
    """A tensor by its shape, dtype, bytes, device and first values."""
    torch: Any = loaded("torch", "_C")
    if torch._len_torch_dispatch_stack():
        return Summary("tensor", type_name(value), size_bytes=shallow_size(value), masked=hide)
    with torch.DisableTorchFunction():
        return _tensor(value, hide)


def _tensor(value: Any, hide: bool) -> Summary:
    shape = tuple(int(extent) for extent in value.shape)
    dtype, device = str(value.dtype).removeprefix("torch."), str(value.device)
    notes = [note for note, holds in ((device, device != "cpu"), ("requires grad", value.requires_grad)) if holds]
    readable = device == "cpu" and str(value.layout) == "torch.strided" and dtype in _NUMBERS
    values = values_text(_first(value), shape) if readable and not hide else ""
    return Summary(
        "tensor",
        type_name(value),
        MASK if hide else values,
        shape,
        dtype,
        value.numel() * value.element_size(),
        note=", ".join(notes),
        masked=hide,
    )


def _first(value: Any) -> list[object]:
    value = value.detach()
    if not value.numel():
        return []
    while value.dim() > 1:  # no flattening: of a tensor that is not contiguous it would be a copy
        value = value[0]
    if value.dim() == 0:
        return [value.item()]
    found: list[object] = value[:_FEW].tolist()
    return found
