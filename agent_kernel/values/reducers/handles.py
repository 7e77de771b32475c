"""Objects whose content lies elsewhere: tensors of torch, widgets, bokeh's document, files of HDF5, open stores of our own."""

from __future__ import annotations

import copyreg
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec.structs import astuple

from agent_kernel.values.aliases import Span, find_cluster
from agent_kernel.values.introspection import class_dict, entry, module_name, qualified_name
from agent_kernel.values.reducers import Handler, dispatch_table, is_notebook_type, leaf, reduce
from agent_kernel.values.references import Reference
from agent_kernel.values.restore import plots, tensors, widgets

if TYPE_CHECKING:
    from agent_kernel.values.pickler import Pickler

_copyreg: Any = copyreg  # some of it is not public
_NEW = _copyreg.__newobj__
# By name, because they are above this layer. What they consist of (locks, threads, an environment) tells a reader nothing.
_STORES = ("Repository", "Snapshot", "Committing", "Versioned", "LmdbStore", "MemoryStore", "EventStore")
_HANDLES = frozenset({*_STORES, "ExecutionContext", "Run", "Race", "Preview"})


def handler_for(kind: type) -> Handler | None:
    names = {(module_name(base).partition(".")[0], base.__name__) for base in kind.__mro__}
    if any(package == "torch" for package, _ in names) and (found := _handler_for_torch(kind)) is not None:
        return found
    if ("ipywidgets", "Widget") in names:
        return reduce_widget
    if ("traitlets", "HasTraits") in names:
        return reduce_with_traits if says_only_traits(kind) and kind not in dispatch_table() else None
    if ("traitlets", "BaseDescriptor") in names and not is_notebook_type(kind):
        return _handler_of_traits(kind)
    if ("h5py", "HLObject") in names:
        return refuse_hdf5
    if ("numba", "_CustomPickled") in names:
        return reduce_compiled
    if ("bokeh", "Document") in names:
        return reduce_document
    if ("bokeh", "Model") in names and not is_notebook_type(kind):
        return reduce_model
    # Plain data, though its class is called like the preview of a step, which is a handle.
    is_preview_of_value = module_name(kind) == "agent_kernel.values.previews.model"
    if not is_preview_of_value and any(package == "agent_kernel" and name in _HANDLES for package, name in names):
        return refuse_store
    return None


def refuse_store(pickler: Pickler, value: Any) -> Any:
    """None of these is told to have changed: what an agent's step does to its place or its run is no change of a variable."""
    if (
        getattr(value, "is_notebook", False) is True
    ):  # the notebook's own execution context, which is there wherever this is loaded
        return value.__reduce__()
    return pickler.refuse(value, "it holds an open store", again=_way_back(value), by_itself=True)


def _way_back(value: Any) -> str:
    """How to have again what its cell would not make again: that would give the task once more."""
    kind = type(value).__name__
    if kind == "Run":
        return f"Agent.reopen({value.id[-5:]!r}) gives it again"
    if kind == "Race":
        branch = f"race/{value.id[-5:]}/1"
        return f"running its cell again would start a new race; %agent merge {branch} takes its candidate 1 until you discard it"
    return ""


def refuse_hdf5(pickler: Pickler, value: Any) -> Any:
    try:
        where = f" {value.file.filename}"
    except Exception:  # noqa: BLE001  # a closed file raises whatever its version likes
        where = ""
    return pickler.refuse(value, f"an HDF5 object of the file{where} is not stored")


# -- widgets of ipywidgets, and other objects with traits: their traits, attributes and handlers are saved
#
# The id in the front end is what a widget is known by: a checkout sets the live widget back, so that what is on the screen
# follows, and after a restart a widget with that id is made again.

TOKEN: Final = "widget "  # of `Dump.holders`: with the id of one behind it


def reduce_widget(pickler: Pickler, widget: Any) -> Any:
    model_id = object.__getattribute__(widget, "__dict__")["_model_id"] or ""
    parts = (
        widgets.widget,
        (type(cast("object", widget)), model_id),
        astuple(widgets.WidgetState.of(widget)),
        None,
        None,
        widgets.fill,
    )
    pickler.dump_record.holders.add(f"{TOKEN}{model_id}")
    return _note(pickler, widget, parts)


def reduce_with_traits(pickler: Pickler, value: Any) -> Any:
    """An object of traitlets: what it says of itself to pickle leaves out who observes it, and what it is linked with."""
    kind: Any = type(cast("object", value))
    parts = widgets.with_traits, (kind,), astuple(widgets.WidgetState.of(value)), None, None, widgets.fill_traits
    return _note(pickler, value, parts)


def _handler_of_traits(kind: type) -> Handler:
    """A trait, or a handler of traits, that a library's class holds is saved by its name: a class made of that one lists it too."""
    from agent_kernel.values.reducers import objects

    otherwise = objects.handler_for(kind)

    def reduce_trait(pickler: Pickler, trait: Any) -> Any:
        attributes: dict[str, Any] = object.__getattribute__(trait, "__dict__")
        owner: Any = attributes.get("this_class")
        name: Any = attributes.get("name")
        is_class = isinstance(owner, type) and not is_notebook_type(owner)
        if not is_class or entry(class_dict(owner), name) is not trait:
            return otherwise(pickler, trait)
        return pickler.by_name(Reference(module_name(owner), f"{qualified_name(owner)}.{name}"))

    return reduce_trait


def says_only_traits(kind: Any) -> bool:
    """Whether objects of a class with traits are pickled as traitlets says."""
    says: Any = next(base for base in kind.__mro__ if (base.__module__, base.__name__) == _HAS_TRAITS)
    return kind.__reduce_ex__ is object.__reduce_ex__ and all(
        getattr(kind, name, None) is getattr(says, name, None)
        for name in ("__getstate__", "__setstate__", "__reduce__")
    )


_HAS_TRAITS = ("traitlets.traitlets", "HasTraits")


def _note(pickler: Pickler, value: Any, parts: tuple[Any, ...]) -> tuple[Any, ...]:
    if id(value) in pickler.muted:
        pickler.mute(parts)
    else:
        pickler.dump_record.opaque.append(value)
        pickler.note_parts(parts)
    return parts


# -- numba: a compiled function is saved as its Python function and its options, from which it is compiled again


def reduce_compiled(pickler: Pickler, value: Any) -> Any:
    """What numba gives pickle for one: it would pickle that by itself, with a copy of all variables that the function reads."""
    kind: Any = type(cast("object", value))
    states: dict[str, Any] = {**value.states}
    parts = (kind, (value.ctor, states))
    del states  # or it would not seem to be new
    pickler.note_parts(parts)
    return parts


# -- bokeh: what is shown belongs to its current document, which is bokeh's own, as `pyplot`'s list of figures is matplotlib's
#
# Saved with each figure, the document would have brought all others that were shown, and a second one that bokeh does not use.


def reduce_document(pickler: Pickler, document: Any) -> Any:
    return (plots.current_document, ()) if plots.is_current(document) else pickler.instance(document)


def reduce_model(pickler: Pickler, model: Any) -> Any:
    noted = pickler.instance(model)
    parts = reduce(model) if noted is NotImplemented else noted
    is_bare = not isinstance(parts, str) and parts[0] is _NEW and len(parts[1]) == 1
    return (plots.model, (type(model), model.id), *parts[2:]) if is_bare else parts


# -- torch: tensors through plain memory, so that views share a storage again and gradients come back
#
# torch's own pickling copies a whole storage into the stream for each view, and forgets `.grad`.


def _handler_for_torch(kind: type) -> Handler | None:
    import torch

    if kind is torch.Tensor or issubclass(kind, torch.nn.Parameter):
        return reduce_tensor
    if kind in (torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format):
        return leaf
    return None


def reduce_tensor(pickler: Pickler, tensor: Any) -> Any:
    import torch

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
    gradient = (
        tensor.grad if tensor.is_leaf or tensor.retains_grad else None
    )  # torch warns if code asks others for theirs
    if tensor.grad_fn is not None:
        pickler.dump_record.held_ids |= parameters_of_graph(tensor.grad_fn, pickler.graph_nodes)
    state = (tensor.requires_grad, gradient, dict(tensor.__dict__))
    pickler.note_parts(state)
    make: Any = tensors.tensor
    if type(tensor) is not torch.Tensor:
        make, made = tensors.parameter, (*made, type(tensor))  # type: ignore[assignment]
    return make, made, state, None, None, tensors.tensor_state


def parameters_of_graph(node: Any, seen: set[Any]) -> set[int]:
    """Find the ids of tensors that get a gradient from `backward()`. Only the graph leads to them, and it is not saved.

    Args:
        seen: nodes that need no second look; those of this graph are added.
    """
    import torch

    accumulates: Any = getattr(torch, "_C")._functions.AccumulateGrad  # noqa: B009 - no other name leads to it
    found: set[int] = set()
    waiting = [] if node in seen else [node]
    seen.add(node)
    while waiting:
        node = waiting.pop()
        if type(node) is accumulates:
            found.add(id(node.variable))
        for before, _ in node.next_functions:
            if before is not None and before not in seen:
                seen.add(before)
                waiting.append(before)
    return found


def _is_plain(tensor: Any) -> bool:
    import torch

    return (
        not torch.nn.parameter.is_lazy(tensor)  # it has no memory before its module sees data
        and tensor.layout is torch.strided
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
    import torch

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
