"""An agent outside works on a store: it looks without loading, acts as itself, and can be held back."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

import agent_kernel as ak
from agent_kernel.__main__ import main
from agent_kernel.agents import Agent
from agent_kernel.mcp.tools import open_store, without_input
from tests.outside.clients import over_stdio, run, take_back_once_it_runs


@pytest.fixture(autouse=True, scope="module")
def packages() -> None:
    """Load them for these tests: where they are not installed, each is skipped."""
    pytest.importorskip("mcp")


class Loud:
    """Says so when it is unpickled."""

    def __setstate__(self, state: object) -> None:
        raise AssertionError("it was unpickled")

    def __getstate__(self) -> object:
        return {"x": 1}


@pytest.fixture
def store(tmp_path: Path) -> str:
    place = tmp_path / "study"
    with ak.Versioned(place) as state:
        state["numbers"] = [1, 2, 3]
        state["api_key"] = "sk-abcdefghijklmnopqrstuvwxyz0123456789"
        state.commit("the start")
        state["numbers"].append(4)  # type: ignore[attr-defined]
        state.commit("one more")
    return str(place)


def log_of(store: str) -> list[ak.Commit]:
    repo = ak.open(store)
    try:
        return [commit for _, commit in repo.log(repo.head().commit)]  # type: ignore[arg-type]
    finally:
        repo.close()


def test_it_tells_what_it_can_do(store: str) -> None:
    async def look() -> None:
        async with over_stdio(store, anew=True) as ask:
            tools = {tool.name: tool for tool in (await ask.client.list_tools()).tools}
            assert set(tools) == {
                "list_variables", "preview", "history", "show", "diff", "run_python", "result", "checkout", "undo",
            }  # fmt: skip
            schema = tools["run_python"].input_schema
            assert schema["required"] == ["code"]
            assert schema["properties"]["code"]["type"] == "string"
            assert tools["preview"].annotations is not None
            assert tools["preview"].annotations.read_only_hint

    run(look)


READS = {
    "input('name? ')": "EOFError: EOF when reading a line",
    "sys.stdin.readline()": "''\n",
    "subprocess.run(['cat'], stdin=sys.stdin, capture_output=True).stdout": "b''\n",
    "sys.stdin.close()": "(no output",
    "input()": "EOFError: EOF when reading a line",
}


def test_code_that_reads_input_finds_its_end(store: str) -> None:
    before = sys.stdin
    with open_store(store, agent="visitor", approve="auto", step_s=None, branch=None) as served:
        served.call("run_python", {"code": "import subprocess, sys"})
        for code, said in READS.items():
            with without_input():
                assert said in served.call("run_python", {"code": code}).text
    assert sys.stdin is before
    assert not before.closed


def test_variables_and_history_can_be_looked_at(store: str) -> None:
    async def look() -> None:
        async with over_stdio(store) as ask:
            listed = await ask.use("list_variables")
            assert "numbers: list" in listed
            assert "numbers: list" in await ask.use("preview", name="numbers")
            assert "one more" in (history := await ask.use("history"))
            assert "the start" in history
            assert "one more" not in await ask.use("history", limit=1, name="api_key")
            assert "one more" in await ask.use("show")
            assert "numbers" in await ask.use("diff")
            assert "numbers" in await ask.use("diff", old="HEAD~1", new="HEAD", name="numbers")
            assert "HEAD~7" in await ask.refused("show", ref="HEAD~7")
            assert "nothing" in await ask.refused("preview", name="nothing")

    run(look)


def test_resources_tell_the_same(store: str) -> None:
    async def look() -> None:
        async with over_stdio(store) as ask:
            listed = await ask.client.list_resources()
            assert {str(one.uri) for one in listed.resources} == {"notebook://variables", "notebook://history"}
            for uri in ("notebook://variables", "notebook://variables/numbers"):
                read = await ask.client.read_resource(uri)
                assert "numbers" in read.contents[0].text  # type: ignore[union-attr]

    run(look)


def test_no_answer_holds_a_secret(store: str) -> None:
    async def look() -> None:
        async with over_stdio(store) as ask:
            told = [
                await ask.use("list_variables"),
                await ask.use("preview", name="api_key"),
                await ask.use("show", ref="HEAD~1"),
                await ask.use("run_python", code="print(api_key)"),
                await ask.use("list_variables"),
                await ask.use("show"),
            ]
            assert "abcdefghijklmnop" not in "".join(told)

    run(look)


def test_looking_unpickles_nothing(tmp_path: Path) -> None:
    script = (
        "import agent_kernel as ak, sys\n"
        "class Loud:\n"
        "    def __reduce__(self): return (print, ('unpickled',))\n"
        "with ak.Versioned(sys.argv[1]) as state:\n"
        "    state['loud'] = Loud()\n"
        "    state.commit('loud')\n"
    )
    import subprocess
    import sys

    from tests.outside.clients import environment

    place = str(tmp_path / "study")
    subprocess.run([sys.executable, "-c", script, place], check=True, env=environment(), capture_output=True)
    marker = tmp_path / "marker"

    async def look() -> None:
        async with over_stdio(place) as ask:
            for tool in ("list_variables", "history", "show", "diff"):
                await ask.tried(tool)
            assert "loud" in await ask.use("preview", name="loud")

    run(look)
    assert not marker.exists()


def test_code_runs_and_is_a_commit_of_the_agent(store: str) -> None:
    async def act() -> None:
        async with over_stdio(store, "--agent", "visitor", anew=True) as ask:
            told = await ask.use("run_python", code="total = sum(numbers)\ntotal", purpose="Sum up the numbers")
            assert told.startswith("10\n")
            assert "+ total" in told
            assert "Commit " in told
            assert "total: int" in await ask.use("list_variables")
            assert "11" in await ask.use("run_python", code="print(total + 1)")

    run(act)
    commits = log_of(store)
    assert (commits[1].author.name, commits[1].author.kind) == ("visitor", "agent")
    assert commits[1].cell is not None
    assert commits[1].cell.source == "total = sum(numbers)\ntotal"


def test_what_it_did_is_a_run_with_its_purpose(store: str) -> None:
    async def act() -> None:
        async with over_stdio(store, "--agent", "visitor") as ask:
            await ask.use("run_python", code="total = 1", purpose="Set a total")

    run(act)
    repo = ak.open(store)
    from agent_kernel.agents.event_log import EventStore, state_of

    event_store = EventStore(repo.store)
    (found,) = event_store.runs()
    assert event_store.first(found).task == "Set a total"
    assert state_of(tuple(event_store.of(found))) == "completed"
    repo.close()


def test_an_error_is_told_and_what_was_done_before_it_is_kept(store: str) -> None:
    async def act() -> None:
        async with over_stdio(store) as ask:
            told = await ask.use("run_python", code="kept = 1\n1 / 0")
            assert "ZeroDivisionError" in told
            assert "kept: int" in await ask.use("list_variables")

    run(act)


def test_each_call_can_be_undone_by_itself_and_any_commit_checked_out(store: str) -> None:
    async def act() -> None:
        async with over_stdio(store) as ask:
            await ask.use("run_python", code="first = 1")
            await ask.use("run_python", code="second = 2")
            await ask.use("undo")
            listed = await ask.use("list_variables")
            assert "first" in listed
            assert "second" not in listed
            await ask.use("checkout", ref="HEAD~3")
            assert "first" not in await ask.use("list_variables")
            assert "4" in await ask.use("run_python", code="len(numbers)")

    run(act)


def test_what_it_prints_is_bounded_and_cannot_break_the_protocol(store: str) -> None:
    async def act() -> None:
        async with over_stdio(store) as ask:
            told = await ask.use("run_python", code="print('x' * 1_000_000)")
            assert len(told) < 25_000
            assert "characters left out" in told
            code = (
                "import os, sys\nos.write(1, b'not json\\n')\nsys.__stdout__.write('neither')\nsys.__stdout__.flush()"
            )
            await ask.tried("run_python", code=code)
            assert "numbers" in await ask.use("list_variables")

    run(act)


def test_what_it_did_outside_the_variables_is_told_and_what_it_reads_is_nothing_of_the_protocols(
    store: str, tmp_path: Path
) -> None:
    async def act() -> None:
        async with over_stdio(store, "--approve", "auto") as ask:
            assert "EOFError" in await ask.use("run_python", code="input()")
            for code in ("import os; os.read(0, 99)", "import subprocess; subprocess.check_output(['cat'])"):
                assert "jsonrpc" not in await ask.use("run_python", code=code)
            told = await ask.use("run_python", code=f"open({str(tmp_path / 'note.txt')!r}, 'w').close()")
            assert "undo does not cover" in told
            assert "note.txt" in told

    run(act)


def test_a_risky_step_waits_for_a_person_and_then_runs(store: str, tmp_path: Path) -> None:
    note = tmp_path / "note.txt"

    async def act() -> None:
        async with over_stdio(store) as ask:
            told = await ask.use("run_python", code=f"open({str(note)!r}, 'w').write('hi')")
            assert "has not run yet" in told
            assert f"agent-kernel approve {store} --run " in told
            assert not note.exists()
            waiting = told.split("(run ")[1][:5]
            assert "has not run yet" in await ask.use("result", run=waiting)
            assert main(["approve", store, "--run", waiting]) == 0
            assert "note.txt" in await ask.use("result", run=waiting)
            assert note.read_text() == "hi"
            assert "note.txt" in await ask.use("result", run=waiting)

    run(act)


def test_the_run_of_another_agent_is_neither_told_nor_driven(store: str) -> None:
    with ak.Versioned(store) as state:
        another = Agent("mine", model=ak.ScriptedModel(["x = 1", "task.success(x)"], name="own"), state=state).start(
            "Do it"
        )
        for event in another:
            if event.kind == "StepStart":
                break

    async def act() -> None:
        async with over_stdio(store) as ask:
            assert "no run is called" in await ask.refused("result", run=another.id)

    run(act)
    with ak.Versioned(store) as state:
        assert [event.kind for event in ak.events(state)] == ["TaskStart", "Action", "StepStart"]


def test_what_a_person_denies_does_not_run(store: str, tmp_path: Path) -> None:
    async def act() -> None:
        async with over_stdio(store) as ask:
            told = await ask.use("run_python", code=f"open({str(tmp_path / 'n')!r}, 'w').write('hi')")
            waiting = told.split("(run ")[1][:5]
            assert main(["deny", store, "--run", waiting, "not", "now"]) == 0
            assert "not now" in await ask.use("result", run=waiting)
            assert not (tmp_path / "n").exists()

    run(act)


def test_where_nothing_is_allowed_a_risky_step_is_denied_at_once(store: str) -> None:
    async def act() -> None:
        async with over_stdio(store, "--approve", "never") as ask:
            assert "denied" in await ask.use("run_python", code="import subprocess\nsubprocess.run(['true'])")
            assert "10" in await ask.use("run_python", code="sum(numbers)")

    run(act)


def test_code_that_takes_too_long_is_interrupted(store: str) -> None:
    async def act() -> None:
        async with over_stdio(store, "--step-s", "0.5") as ask:
            told = await ask.use("run_python", code="begun = 1\nimport time\ntime.sleep(60)")
            assert "longer than 0.5 s" in told
            assert "begun" in await ask.use("list_variables")

    run(act)


def test_a_call_that_is_taken_back_is_interrupted(store: str, tmp_path: Path) -> None:
    async def act() -> None:
        async with over_stdio(store, "--approve", "auto") as ask:
            await take_back_once_it_runs(ask, tmp_path / "begun")
            assert "begun" in await asyncio.wait_for(ask.use("list_variables"), 30)

    run(act)


def test_a_branch_that_somebody_else_uses_is_left_alone(store: str) -> None:
    async def act() -> None:
        async with over_stdio(store) as ask:
            told = await ask.use("run_python", code="mine = 1")
            assert "main-2" in told

    with ak.Versioned(store) as state:
        run(act)
        assert "mine" not in state


def test_another_branch_can_be_named(store: str) -> None:
    repo = ak.open(store)
    repo.create_branch("side")
    repo.close()

    async def act() -> None:
        async with over_stdio(store, "--branch", "side") as ask:
            await ask.use("run_python", code="aside = 1")

    run(act)
    repo = ak.open(store)
    assert "aside" in repo.at("side")
    assert "aside" not in repo.at("main")
    repo.close()


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ([], 2, "say which"),
        (["nowhere"], 1, "nowhere"),
        (["STORE", "--approve", "perhaps"], 2, "--approve is one of"),
        (["STORE", "--http", "many"], 2, "a port is a number"),
        (["STORE", "--step-s", "-1"], 2, "seconds are more than 0"),
        (["--kernel", "no-such-kernel"], 1, "connection file"),
    ],
)
def test_what_does_not_fit_is_one_line(
    words: list[str], status: int, said: str, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mcp", *(store if word == "STORE" else word for word in words)]) == status
    assert said in capsys.readouterr().err


def test_the_command_is_listed_with_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "agent-kernel mcp" in capsys.readouterr().out
    assert main(["help", "mcp"]) == 0
    assert "--kernel" in capsys.readouterr().out


def test_an_agent_of_ours_is_no_agent_outside() -> None:
    assert Agent("visitor", model="outside:visitor").start("Do it.").result()
