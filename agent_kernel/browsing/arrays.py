"""Arrays side by side: smallest, mean, largest, standard deviation, and how the values are spread.

Of a long array stretches from its beginning to its end are read, and it is said so.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite, prod, sqrt

import msgspec

from agent_kernel.browsing.elements import elements_of
from agent_kernel.browsing.faces import ArrayFace, ArrayRow
from agent_kernel.browsing.memory import Elements, Numbers
from agent_kernel.values.peeking import Buffer, Call
from agent_kernel.verbs.contents import ARRAY, Stored, columns_of, integers

__all__ = ["MOST_READ", "array_face", "numbers_in"]

MOST_READ = 262_144  # numbers of one version
_BARS = 16
_TORCH = {
    "float64": "<f8",
    "float32": "<f4",
    "float16": "<f2",
    "int64": "<i8",
    "int32": "<i4",
    "int16": "<i2",
    "int8": "|i1",
    "uint8": "|u1",
    "bool": "|b1",
}


class _Measured(msgspec.Struct):
    """What the numbers of one version come to."""

    low: float
    high: float
    mean: float
    sd: float
    missing: int
    values: list[float]
    is_boolean: bool = False


def numbers_in(stored: Stored) -> Numbers | None:
    """The numbers of an array, a tensor, or a series of numbers; None for anything else."""
    value = stored.value
    if not isinstance(value, Call):
        return None
    if value.name == ARRAY:
        found = elements_of(stored, Call(ARRAY, (*value.args[:2], (prod(integers(value.args[2])),), "C")))
    elif value.name == "agent_kernel.values.restore.tensors.tensor":
        found = _tensor(stored, value)
    else:
        columns = columns_of(stored) if value.name.endswith("Series") else None
        part = columns.get(0) if columns is not None and len(columns) == 1 else None
        found = None if part is None else elements_of(stored, part[0].args[0])
    return found if isinstance(found, Numbers) and found.is_number else None


def _tensor(stored: Stored, tensor: Call) -> Elements | None:
    """A tensor that takes up all of its memory, in order."""
    if len(tensor.args) < 5 or not isinstance(tensor.args[0], Call) or not tensor.args[0].args:
        return None
    held, dtype, offset, shape = tensor.args[0].args[0], _TORCH.get(str(tensor.args[1])), tensor.args[2], tensor.args[3]
    total = prod(integers(shape))
    if dtype is None or offset != 0 or not isinstance(held, Buffer):
        return None
    return elements_of(stored, Call(ARRAY, (held, dtype, (total,), "C")))


def array_face(before: Numbers | None, after: Numbers | None) -> tuple[ArrayFace, str] | None:
    """Both versions, and what has to be said of how they were read; None if there is no number to show."""
    sides = [(label, side) for label, side in (("before", before), ("after", after)) if side is not None]
    measured = [(label, _measure(side)) for label, side in sides]
    if all(not one.values for _, one in measured):
        return None
    low = min(one.low for _, one in measured)
    high = max(one.high for _, one in measured)
    told = [_stats(one) for _, one in measured]
    rows = tuple(
        ArrayRow(label, _spread(one.values, low, high), tuple(_marked(stats, told[0] if at else None)))
        for at, ((label, one), stats) in enumerate(zip(measured, told, strict=True))
    )
    longest = max(side.count for _, side in sides)
    note = f"Worked out from {MOST_READ:,} of {longest:,} values." if longest > MOST_READ else ""
    return ArrayFace(rows), note


def _measure(numbers: Numbers) -> _Measured:
    values: list[float] = []
    seen = 0
    for stretch in numbers.sample(MOST_READ):
        seen += len(stretch)
        values += [found for found in stretch if isfinite(found)]
    if not values:
        return _Measured(inf, -inf, 0.0, 0.0, seen, values)
    mean = sum(values) / len(values)
    sd = sqrt(sum((found - mean) ** 2 for found in values) / len(values))
    return _Measured(min(values), max(values), mean, sd, seen - len(values), values, numbers.is_boolean)


def _stats(one: _Measured) -> list[tuple[str, str]]:
    if not one.values:
        return [("missing", f"{one.missing:,}")]
    if one.is_boolean:
        true = round(sum(one.values))
        return [("True", f"{true:,}"), ("False", f"{len(one.values) - true:,}")]
    found = [("min", one.low), ("mean", one.mean), ("max", one.high), ("sd", one.sd)]
    shown = [(name, _number(value)) for name, value in found]
    return [*shown, ("missing", f"{one.missing:,}")] if one.missing else shown


def _number(value: float) -> str:
    """Four digits, and all of a large whole number."""
    said = f"{value:.4g}" if abs(value) < 10_000 else f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.4g}"
    return said.replace("-", "−", 1) if said.startswith("-") else said


def _marked(stats: Sequence[tuple[str, str]], before: Sequence[tuple[str, str]] | None) -> list[tuple[str, str, bool]]:
    known = dict(before or ())
    return [(name, said, before is not None and known.get(name) != said) for name, said in stats]


def _spread(values: Sequence[float], low: float, high: float) -> tuple[float, ...]:
    """How many values lie in each sixteenth of the range of both versions, the most being 1."""
    counts = [0] * _BARS
    if not values:
        return tuple(map(float, counts))
    scale = _BARS / (high - low) if high > low else 0.0
    if not isfinite(scale):
        scale = 0.0
    for value in values:
        counts[min(_BARS - 1, int((value - low) * scale))] += 1
    most = max(counts)
    return tuple(round(count / most, 3) for count in counts)
