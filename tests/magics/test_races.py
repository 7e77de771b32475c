"""`--fork` tries a task several times at once, and a person or a judge picks one."""

from __future__ import annotations

from typing import Any

import pytest

from agent_kernel.errors import RaceError
from tests.agents.openai_server import OpenAIServer, calls
from tests.magics.shells import Shell
from tests.magics.tasks import runs, use


def test_one_undo_takes_back_a_cell_with_the_candidate_that_it_picked(shell: Shell) -> None:
    shell.run("import agent_kernel as ak; from concurrent.futures import ThreadPoolExecutor; x = 0")
    shell.run(
        "bob = ak.Agent('bob', model=ak.ScriptedModel(['x = 7; task.success()']))\n"
        "with ThreadPoolExecutor() as pool:\n"
        "    tries = ak.race('Try it', n=1, agent=bob, executor=pool).wait()"
    )
    shell.run("best = 1; tries.pick(best); y = 3")
    assert (shell.ns["x"], shell.ns["y"]) == (7, 3)
    assert "[3] best = 1; tries.pick(best); y = 3, and candidate 1 of race" in shell.run("%agent undo").out
    assert (shell.ns["x"], "y" in shell.ns, "best" in shell.ns) == (0, False, False)
    shell.run("%agent redo")
    assert (shell.ns["x"], shell.ns["y"]) == (7, 3)


PLAY = "from agent_kernel import ScriptedModel\n{} = ScriptedModel({!r}, name={!r})"


def test_fork_tries_a_task_several_times_at_once_and_picks_none_by_itself(shell: Shell) -> None:
    shell.run("x = 1")
    use(shell, "y = x + 1", "task.success(y)")
    typed = shell.run("%%agent analyst --fork 2\nAdd one to it please.")
    assert typed.result.success, typed.err
    race: Any = typed.result.result
    assert [(one.status, one.result) for one in race.candidates] == [("completed", "2")] * 2
    assert "y" not in shell.ns
    race.pick(2)
    assert shell.ns["y"] == 2
    race.discard()


def test_a_race_is_not_resumed_as_a_run(shell: Shell) -> None:
    use(shell, "x = 5", "task.success(x)", "x = 6", "task.success(x)")
    typed = shell.run("x = 1\n").result.success and shell.run("%%agent analyst --fork 2\nAdd one to it please.")
    race: Any = typed and typed.result.result
    said = shell.run(f"%agent resume --run {race.id[-5:]}")
    assert "is a race: it cannot be resumed; run its cell again" in said.out + said.err
    assert shell.ns["x"] == 1
    race.discard()


def test_fork_takes_a_model_for_each_candidate_and_a_judge_picks_the_best(shell: Shell) -> None:
    shell.run(PLAY.format("low", ["y = 1", "task.success(y)"], "low"))
    shell.run(PLAY.format("high", ["y = 5", "task.success(y)"], "high"))
    typed = shell.run("%%agent analyst --fork scripted:low,scripted:high --judge y\nMake a number please.")
    assert typed.result.success, typed.err
    race: Any = typed.result.result
    assert [one.model for one in race.candidates] == ["scripted:low", "scripted:high"]
    assert (race.picked, shell.ns["y"]) == (2, 5)
    *both, whole = runs(shell)[:3]
    first, second = sorted(both, key=lambda one: one["candidate"])  # they begin side by side
    assert [(one["candidate"], one["race"]) for one in (first, second)] == [(1, race.id), (2, race.id)]
    assert (whole["picked"], whole["discarded"]) == (2, False)
    assert (whole["steps"], whole["tokens"]) == (4, first["tokens"] + second["tokens"])
    table = shell.run("%agent runs").out
    assert "candidate 1 of" in table
    assert "picked 2 of 2" in table
    assert " status " in table.splitlines()[0]
    race.discard()
    assert runs(shell)[2]["discarded"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--judge y", "there is no --fork"),
        ("--fork 0", "a number from 1"),
        ("--fork 2 --preview", "--fork and --preview"),
        ("--fork scripted:a --model scripted:b", "--fork and --model"),
    ],
)
def test_what_does_not_go_with_fork_is_refused(shell: Shell, line: str, said: str) -> None:
    typed = shell.run(f"%%agent analyst {line}\nMake a number please.")
    assert not typed.result.success
    assert said in typed.out + typed.err


def test_a_judge_that_raises_is_told_and_a_person_picks(shell: Shell) -> None:
    use(shell, "y = 5", "task.success(y)")
    typed = shell.run("%%agent analyst --fork 2 --judge 1/0\nMake a number please.")
    race: Any = typed.result.result
    assert "The judge could not judge (ZeroDivisionError: division by zero): pick one yourself." in typed.out
    assert "judge could not judge (ZeroDivisionError" in str(race)
    with pytest.raises(RaceError, match=r"judge could not judge.*pick\(NUMBER\)"):
        race.pick()
    race.pick(1)
    assert shell.ns["y"] == 5


# Scripted candidates take a model each above: a second pair of processes that import a provider's package is for the slow tests.
@pytest.mark.parametrize("by_number", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_fork_works_with_the_models_of_providers(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, by_number: bool
) -> None:
    pytest.importorskip("pydantic_ai.models.openai")
    monkeypatch.setattr("pydantic_ai.models.ALLOW_MODEL_REQUESTS", True)
    with OpenAIServer(*[calls("task.success(5)")] * 2).running() as server:
        model = f"openai:local@{server.address}"
        options = f"--fork 2 --model {model}" if by_number else f"--fork {model},{model}"
        typed = shell.run(f"%%agent analyst {options}\nMake a number please.")
        assert typed.result.success, typed.err
        race: Any = typed.result.result
        assert [(one.status, one.result) for one in race.candidates] == [("completed", "5")] * 2


REAL = (
    "import agent_kernel as ak\n"
    "from pydantic_ai.models.openai import OpenAIChatModel\n"
    "from pydantic_ai.providers.openai import OpenAIProvider\n"
    "real = OpenAIChatModel('gpt-x', provider=OpenAIProvider(base_url={!r}, api_key='sk-own'))\n"
    "analyst = ak.Agent('analyst', model=real)"
)


@pytest.mark.parametrize("header", ["racer --model real --fork 2", "racer --fork real,real", "analyst --fork 2"])
def test_the_candidates_of_a_model_object_ask_its_own_server_with_its_own_key(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, header: str
) -> None:
    pytest.importorskip("pydantic_ai.models.openai")
    monkeypatch.setattr("pydantic_ai.models.ALLOW_MODEL_REQUESTS", True)
    with (
        OpenAIServer(*[calls("y = 5\ntask.success(y)")] * 2).running() as server,
        OpenAIServer().running() as other,
    ):
        monkeypatch.setenv("OPENAI_BASE_URL", other.address)  # where the model's name alone leads
        monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
        shell.run(REAL.format(server.address))
        typed = shell.run(f"%%agent {header}\nMake a number please.")
        assert typed.result.success, typed.err
        race: Any = typed.result.result
        assert [(one.status, one.result) for one in race.candidates] == [("completed", "5")] * 2
        assert {headers["authorization"] for headers in server.headers} == {"Bearer sk-own"}
        assert other.requests == []
        assert "y" not in shell.ns
        race.pick(1)
        assert shell.ns["y"] == 5


def test_a_candidate_that_never_ends_holds_its_cell_no_longer_than_the_cell_allows(shell: Shell) -> None:
    use(shell, "while True: pass")
    typed = shell.run("%%agent analyst --fork 1 --seconds 2\nCount on without end.")
    race: Any = typed.result.result
    assert [one.status for one in race.candidates] == ["failed"]


def test_a_race_that_is_kept_says_how_to_have_its_candidates_in_another_kernel(shell: Shell) -> None:
    shell.run("x = 1")
    use(shell, "y = x + 1", "task.success(y)")
    race: Any = shell.run("%%agent analyst --fork 2\nAdd one to it please.").result.result
    said = shell.run("tries = _").out
    way = f"%agent merge {race.candidates[0].branch}"
    assert f"Running its cell again would start a new race; {way} takes its candidate 1 until you discard it." in said
    assert shell.run(way).result.success
    assert shell.ns["y"] == 2
    race.discard()
