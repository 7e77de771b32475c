"""Which stored series hold a secret: their own name says so of all of it, a label of what stands beside it."""

from __future__ import annotations

from agent_kernel.browsing.memory import Elements, Numbers, Steps, all_of
from agent_kernel.values.peeking import Call
from agent_kernel.values.summaries import MASK, Summary
from agent_kernel.values.summaries.masking import labels_a_secret, speaks_of_secrets
from agent_kernel.verbs.contents import Stored, items_of

__all__ = ["is_hidden", "is_named_a_secret", "may_name_a_secret"]


def is_named_a_secret(stored: Stored) -> bool:
    """Whether this is a series that goes by the name of a secret, under whatever name the notebook keeps it."""
    value = stored.value
    if not isinstance(value, Call) or not value.name.endswith("Series") or not value.state:
        return False
    state = items_of(value.state[0])
    return any(name == "_name" and labels_a_secret(held) for name, held in zip(state[::2], state[1::2], strict=False))


def is_hidden(summary: Summary) -> bool:
    """Whether nothing but a mask was noted of what it holds."""
    return summary.kind == "series" and summary.text == MASK


def may_name_a_secret(labels: Elements | None) -> bool:
    """Whether one of the labels is, or where they are too many to be read may be, the name of a secret."""
    if labels is None or isinstance(labels, (Numbers, Steps)):
        return False
    found = all_of(labels)
    if found is None:
        return True
    return any(isinstance(one, str) and speaks_of_secrets(one) and labels_a_secret(str(one)) for one in found)
