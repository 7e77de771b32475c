"""Give a task to an agent whose model plays its answers, and see what came of it."""

from __future__ import annotations

import json
from typing import Any

from agent_kernel.agents import FunctionModel, ScriptedModel, Turn
from tests.magics.shells import Shell


def use(shell: Shell, *turns: Turn | str) -> None:
    """Let tasks go to a model that plays these answers."""
    shell.ip.user_ns["_model"] = ScriptedModel(turns, name="_model")
    shell.run("%agent model scripted:_model")


def runs(shell: Shell) -> list[Any]:
    found: list[Any] = json.loads(shell.run("%agent runs --json").out)
    return found


def told(shell: Shell) -> list[str]:
    """The tasks that a model is told of as the next run begins."""
    heard: list[str] = []

    def answer(request: Any) -> str:
        heard.extend(
            message.text.partition("\n")[0] for message in request.messages if type(message).__name__ == "UserMessage"
        )
        return "task.success()"

    shell.ip.user_ns["_model"] = FunctionModel(answer)
    shell.run("%agent model scripted:_model")
    typed = shell.run("%%agent analyst\nSay what you were told.")
    assert typed.result.success, typed.err
    return heard[:-1]
