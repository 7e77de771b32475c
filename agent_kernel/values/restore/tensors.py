"""Rebuild torch tensors over the memory of restored arrays."""
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# torch leaves much of this untyped.

from __future__ import annotations

from typing import Any

from agent_kernel.values.restore.context import current


def tensor(base: Any, dtype: str, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], device: str) -> Any:
    """A tensor over an array's memory; on another device, over one copy there that all tensors of that memory share."""
    import torch

    kind: Any = getattr(torch, dtype)
    if not len(base):
        return torch.empty(shape, dtype=kind, device=_device(device))
    storage = current().once((id(base), device), lambda: _storage(base, device))
    return torch.empty(0, dtype=kind, device=storage.device).set_(storage, offset, shape, strides)


def _storage(base: Any, device: str) -> Any:
    import numpy as np
    import torch

    raw = base.reshape(-1, order="A").view(np.uint8) if isinstance(base, np.ndarray) else base
    return torch.frombuffer(raw, dtype=torch.uint8).to(_device(device)).untyped_storage()


def _device(wanted: str) -> str:
    """The wanted device where this machine has it, else the CPU."""
    import torch

    return wanted if wanted == "cpu" or torch.cuda.is_available() else "cpu"


def parameter(
    base: Any, dtype: str, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], device: str, kind: Any
) -> Any:
    import torch

    plain = tensor(base, dtype, offset, shape, strides, device)
    return torch.Tensor._make_subclass(kind, plain)  # pyright: ignore[reportPrivateUsage]  # as torch.nn.Parameter does


def tensor_state(made: Any, state: tuple[Any, ...]) -> None:
    requires_grad, grad, attributes = state
    made.requires_grad_(requires_grad)
    if grad is not None:
        made.grad = grad
    for name, value in attributes.items():
        setattr(made, name, value)
