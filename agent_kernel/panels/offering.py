"""A question under a cell, with a button for each answer: one click, and it is done between cells."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from agent_kernel.panels.channels import keep_thread

if TYPE_CHECKING:
    from agent_kernel.panels.channels import Comm
    from agent_kernel.panels.desk import Answer
    from agent_kernel.panels.turns import Turns

__all__ = ["Offer"]

logger = logging.getLogger(__name__)


class Offer:
    """The question, until one of its buttons was clicked.

    Args:
        choices: what each button says, and what it does.
    """

    def __init__(self, turns: Turns, question: str, choices: Sequence[tuple[str, Callable[[], None]]]) -> None:
        widgets: Any = __import__("ipywidgets")  # it has no types
        self._turns = turns
        self._question = question
        self._answered = False
        self.buttons = [self._button(widgets, label, call) for label, call in choices]
        self._box = widgets.HBox([widgets.Label(question), *self.buttons])

    def _button(self, widgets: Any, label: str, call: Callable[[], None]) -> Any:
        button = widgets.Button(description=label, layout={"width": "auto"})
        keep_thread(cast("Comm", button.comm))
        button.on_click(partial(self._choose, call))
        return button

    def _choose(self, call: Callable[[], None], _button: object) -> None:
        if self._answered:
            return  # two clicks came before the buttons had gone
        self._answered = True
        self._box.close()
        self._turns.take(_Chosen(call, self._question))

    def bundle(self) -> Answer:
        """The display: the buttons, and the question alone where they cannot be shown."""
        view = cast("Answer", self._box._repr_mimebundle_())
        return {**view, "text/plain": self._question}


class _Chosen:
    """What a button does, as soon as it is its turn."""

    def __init__(self, call: Callable[[], None], question: str) -> None:
        self._call = call
        self._question = question

    def do(self) -> None:
        try:
            self._call()
        except Exception:
            logger.exception("what a button does has failed: %s", self._question)

    def waits(self) -> None: ...

    def is_dropped(self) -> None: ...
