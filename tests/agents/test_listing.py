"""What agents did is listed in order, across runs and sub-agents, and shown as text and as HTML."""

from __future__ import annotations

import io

import pytest

import agent_kernel as ak
from agent_kernel.agents.events import Action, Error, Output, Part, TaskStart


def family(**more: object) -> ak.Agent:
    """A parent with one sub-agent."""
    child = ak.Agent("child", model=ak.ScriptedModel(["print('inside')\ntask.success(n * 2)"], name="c"))
    parent = ak.Agent("parent", model=ak.ScriptedModel(["answer = twice(4)", "task.success(answer)"], name="p"), **more)  # type: ignore[arg-type]

    @parent.fn
    @child.task
    def twice(n: int) -> int:
        """Twice as much."""
        raise NotImplementedError

    assert twice.agent is child
    return parent


@pytest.mark.parametrize("kind", [ak.Versioned, ak.Live])
def test_events_of_a_state_are_in_order_across_runs_and_sub_agents(kind: type[ak.Live]) -> None:
    state, heard = kind(), list[object]()
    parent = family(state=state, on_event=heard.append)
    parent("First")
    parent("Second")
    found = ak.events(state)
    assert list(found) == heard
    assert [event.task for event in found if isinstance(event, TaskStart)] == [
        *("First", "Twice as much."),
        *("Second", "Twice as much."),
    ]


def test_events_of_one_run_are_those_of_its_sub_agents_too() -> None:
    state = ak.Live()
    parent = family(state=state)
    first, second = parent.start("First"), parent.start("Second")
    first.result()
    second.result()
    for found in (ak.events(state, first), ak.events(state, first.id), ak.events(first)):
        assert {event.namespace for event in found} == {"parent", "parent/child"}
        assert {event.run for event in found} & {second.id} == set()
    assert len(ak.events(state)) == len(ak.events(first)) + len(ak.events(second))


def test_events_of_a_run_without_a_state_are_known_as_long_as_the_run() -> None:
    run = family().start("Work")
    run.result()
    assert {event.agent for event in ak.events(run)} == {"parent", "child"}


def test_events_outlive_what_is_rolled_back() -> None:
    with ak.Versioned() as state:
        family(state=state)("Work")
        before = ak.events(state)
        state.undo()
        assert ak.events(state.repo) == before


def test_a_dict_keeps_none_and_says_what_does() -> None:
    with pytest.raises(TypeError, match="Live"):
        ak.events({})  # type: ignore[arg-type]


def test_without_a_notebook_there_is_nothing_to_list() -> None:
    with pytest.raises(ak.NotBoundError):
        ak.events()


def printed(events: object, **look: object) -> str:
    out = io.StringIO()
    ak.pprint_events(events, file=out, **look)  # type: ignore[arg-type]
    return out.getvalue()


def test_text_says_what_each_did_and_indents_sub_agents() -> None:
    run = family().start("Work")
    run.result()
    lines = printed(ak.events(run)).splitlines()
    assert lines[0] == "[parent] task: Work"
    assert "  | answer = twice(4)" in lines
    assert "  [parent/child] task: Twice as much." in lines
    assert "    inside" in lines
    assert "  + answer: int 8" in lines
    assert lines[-1] == "[parent] done: int 8"


def test_options_say_how_much_is_shown() -> None:
    run = family().start("Work")
    run.result()
    found = ak.events(run)
    assert "\n    inside" not in printed(found, verbosity="brief")
    assert "The notebook has no variables yet." in printed(found, verbosity="verbose")
    assert "+ answer" not in printed(found, show_delta=False)
    assert "\n[parent/child]" in printed(found, indent_by_namespace=False)
    assert max(map(len, printed(found, width=30).splitlines())) == 30
    assert "\x1b[32m" in printed(found, color=True)
    assert "\x1b" not in printed(found)
    long = Action(code="\n".join(f"x = {n}" for n in range(50)), step=1)
    assert "… 40 more lines" in printed(long, truncate_code_lines=10)
    assert "x = 49" in printed(long, truncate_code_lines=None)
    with pytest.raises(ValueError, match="brief, normal, verbose"):
        printed(long, verbosity="loud")


def test_one_event_can_be_printed_as_it_comes(capsys: pytest.CaptureFixture[str]) -> None:
    family(on_event=ak.pprint_events)("Work")
    assert "[parent] done: int 8" in capsys.readouterr().out


def test_html_escapes_all_that_is_foreign() -> None:
    evil = "<script>alert(1)</script>"
    found = ak.Events(
        [
            TaskStart(task=evil, agent=evil, model=evil),
            Action(code=evil, text=evil, step=1),
            Output(parts=(Part("text/plain", evil),)),
            Error(message=evil),
        ]
    )
    html = found._repr_html_()
    assert "<script" not in html
    assert html.count("&lt;script&gt;") == 7
    assert all("<script" not in event._repr_html_() for event in found)


def test_what_looks_like_a_secret_is_masked_whatever_was_stored() -> None:
    secret = "sk-" + "a1B2c3D4e5F6g7H8" * 3
    found = ak.Events([Action(code=f"key = '{secret}'", step=1), Output(parts=(Part("text/plain", secret),))])
    assert secret not in str(found) + found._repr_html_() + printed(found, verbosity="verbose")


def test_escape_sequences_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in printed(Error(message="\x1b]0;title\x07\x1b[2Jgone"))


def test_the_events_of_a_run_have_faces_too() -> None:
    run = family().start("Work")
    run.result()
    assert "done: int 8" in str(run.events)
    assert repr(run.events) == f"<{len(run.events)} events>"
    assert "done: int 8" in run.events._repr_html_()


def test_some_of_them_are_shown_as_all_are() -> None:
    run = family().start("Work")
    run.result()
    last = run.events[-2:]
    assert isinstance(last, ak.Events)
    assert repr(last) == "<2 events>"
    assert last == tuple(run.events)[-2:]
    assert last[-1] is run.events[-1]


def test_what_code_showed_keeps_its_columns_in_html() -> None:
    frame = "   city  price\n0  Oslo      1"
    (row,) = [
        row
        for row in ak.Events([Output(parts=(Part("text/plain", frame),))])._repr_html_().split("<div")
        if frame in row
    ]
    assert "white-space:pre;" in row
    assert "monospace" in row
