"""torch: tensors through plain memory, so that views share a storage again and gradients come back.

torch's own pickling copies a whole storage into the stream for each view, and forgets `.grad`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from agent_kernel.values.aliases import Span, find_cluster
from agent_kernel.values.reducers import Handler, leaf
from agent_kernel.values.restore import tensors as restore

if TYPE_CHECKING:
    from agent_kernel.values.pickler import Pickler


def handler_for(kind: type) -> Handler | None:
    if kind is torch.Tensor or issubclass(kind, torch.nn.Parameter):
        return reduce_tensor
    if kind in (torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format):
        return leaf
    return None


def reduce_tensor(pickler: Pickler, tensor: Any) -> Any:
    if not _is_plain(tensor):
        pickler.dump_record.instances.append(tensor)
        return pickler.protect(tensor) if pickler.careful else NotImplemented
    pickler.dump_record.opaque.append(tensor)
    device = str(tensor.device)
    low, high = _bounds(tensor)
    pickler.uses(tensor, low, high, device)
    values = tensor.detach()
    storage, offset, strides = _storage(pickler, values, low, high, device)
    dtype = str(tensor.dtype).partition(".")[2]
    made = (storage, dtype, offset, tuple(tensor.shape), strides, device)
    gradient = tensor.grad if tensor.is_leaf else None
    state = (tensor.requires_grad, gradient, dict(tensor.__dict__))
    pickler.note_parts(state)
    make: Any = restore.tensor
    if type(tensor) is not torch.Tensor:
        make, made = restore.parameter, (*made, type(tensor))  # type: ignore[assignment]
    return make, made, state, None, None, restore.tensor_state


def _is_plain(tensor: Any) -> bool:
    return (
        tensor.layout is torch.strided
        and not tensor.is_quantized
        and not tensor.is_conj()
        and not tensor.is_neg()
        and tensor.device.type in ("cpu", "cuda")
    )


def _bounds(tensor: Any) -> tuple[int, int]:
    low = tensor.data_ptr()
    if tensor.numel() == 0:
        return low, low
    reach = sum((count - 1) * stride for count, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return low, low + (reach + 1) * tensor.element_size()


def _storage(pickler: Pickler, values: Any, low: int, high: int, device: str) -> tuple[Any, int, tuple[int, ...]]:
    """Where the elements are stored: in a shared cluster, or in bytes of the tensor's own."""
    size = values.element_size()
    cluster = find_cluster(pickler.clusters, low, device) if values.numel() else None
    if cluster is not None and (low - cluster.base_low) % size == 0:
        return cluster.base, (low - cluster.base_low) // size, tuple(values.stride())
    if (high - low) != values.numel() * size:
        values = values.contiguous()
    if values.numel() == 0:
        return Span(0, 0, None), 0, tuple(values.stride())
    flat = torch.as_strided(values, (values.numel(),), (1,))
    flat = flat.cpu() if device != "cpu" else flat
    start = flat.data_ptr()
    holder = Span(start, start + flat.numel() * size, flat)
    pickler.keepalive.append(holder)
    return holder, 0, tuple(values.stride())
