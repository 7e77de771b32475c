"""Workflows: steps, progress, checkpoints; a checkout rewinds them. Rows AAF-5, AAF-6 and AAF-7."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Callable

import pytest

import agent_kernel as ak
from agent_kernel.agents import ScriptedModel
from agent_kernel.records.workflows import Workflows


def run_steps(flows: Workflows, id: str, *names: str) -> None:
    for name in names:
        with flows.step(id, name) as step:
            step.result = f"{name} is done"


def fail_step(flows: Workflows, id: str, name: str, error: BaseException) -> None:
    with pytest.raises(type(error)), flows.step(id, name):
        raise error


def test_a_step_has_a_status_a_result_and_a_duration_and_the_workflow_its_progress(memory: ak.Repository) -> None:
    """AAF-5: create, update_step, get with progress; start, complete."""
    flows = memory.workflows
    flow = flows.start("nightly", ["load", "clean", "report"], context={"day": "Monday"})
    assert (flow.id, flow.status, flow.context) == ("nightly", "RUNNING", {"day": "Monday"})
    with flows.step("nightly", "load") as step:
        assert flows["nightly"].step("load").status == "RUNNING"
        step.result = {"rows": 344}
    done = flows["nightly"].step("load")
    assert (done.status, done.result, done.attempts) == ("COMPLETED", {"rows": 344}, 1)
    assert done.duration_s > 0
    assert (flows.progress("nightly").current, flows.progress("nightly").total) == (1, 3)
    flows.skip("nightly", "clean")
    run_steps(flows, "nightly", "report")
    assert flows["nightly"].status == "COMPLETED"
    assert flows["nightly"].progress.fraction == 1


def test_workflows_of_one_name_have_their_own_ids(memory: ak.Repository) -> None:
    """AAF-5: list."""
    flows = memory.workflows
    assert [flows.start("nightly", ["a"]).id for _ in range(3)] == ["nightly", "nightly-2", "nightly-3"]
    flows.cancel("nightly-2")
    assert [flow.id for flow in flows.list("RUNNING")] == ["nightly-3", "nightly"]
    with pytest.raises(ak.StaleRecordError):
        flows.start("nightly", ["a"], id="nightly")


def test_a_step_that_raises_fails_the_workflow_and_can_be_tried_again(memory: ak.Repository) -> None:
    """AAF-5: fail_step, retry_step."""
    flows = memory.workflows
    flows.start("w", ["load", "clean"])
    fail_step(flows, "w", "load", OSError("no network"))
    failed = flows["w"]
    assert (failed.status, failed.reason) == ("FAILED", "load: OSError: no network")
    assert failed.step("load").error == "OSError: no network"
    assert flows.retry("w").step("load").status == "PENDING"
    run_steps(flows, "w", "load")
    assert (flows["w"].status, flows["w"].step("load").attempts) == ("RUNNING", 2)
    flows.fail("w", "clean", "somebody says so")
    run_steps(flows, "w", "clean")  # entering it tries it again
    assert flows["w"].status == "COMPLETED"


def test_an_interrupt_pauses_it_and_the_step_is_to_be_done(memory: ak.Repository) -> None:
    """AAF-7: pause; nothing was wrong with the step."""
    flows = memory.workflows
    flows.start("w", ["load"])
    fail_step(flows, "w", "load", KeyboardInterrupt())
    assert (flows["w"].status, flows["w"].step("load").status) == ("PAUSED", "PENDING")
    flows.resume("w")
    run_steps(flows, "w", "load")
    assert flows["w"].status == "COMPLETED"


def test_it_goes_back_to_a_checkpoint_and_forgets_nothing(memory: ak.Repository) -> None:
    """AAF-6: checkpoint, list_checkpoints, resume_from."""
    flows = memory.workflows
    flows.start("w", ["a", "b", "c"])
    run_steps(flows, "w", "a")
    flows.checkpoint("w", "after a")
    run_steps(flows, "w", "b", "c")
    assert {flow.id for flow in flows.list("COMPLETED")} == {"w"}
    assert [(point.number, point.name) for point in flows.checkpoints("w")] == [(1, "after a")]
    assert flows.resume("w", at="after a").progress.current == 1
    assert flows["w"].status == "RUNNING"
    run_steps(flows, "w", "b")
    assert flows.resume("w", at="latest").progress.current == flows.resume("w", at=1).progress.current == 1
    assert [change.new.status for change in flows.records.history("w") if change.new].count("COMPLETED") == 1
    with pytest.raises(ak.RecordNotFoundError):
        flows.resume("w", at="elsewhere")


def test_a_checkpoint_comes_by_itself_every_n_steps(memory: ak.Repository) -> None:
    """AAF-6: checkpoint_interval. The step and its checkpoint are one commit."""
    flows = memory.workflows
    flows.start("w", list("abcde"), checkpoint_every=2)
    run_steps(flows, "w", *"abcde")
    assert [point.name for point in flows.checkpoints("w")] == ["after b", "after d"]
    assert [point.state.progress.current for point in flows.checkpoints("w")] == [2, 4]


def test_seven_statuses_and_their_transitions(memory: ak.Repository) -> None:
    """AAF-7: pause, resume, cancel with a reason, get_status; WAITING too."""
    flows = memory.workflows
    flows.start("w", ["a"])
    flows.pause("w", "lunch")
    assert (flows["w"].status, flows["w"].reason) == ("PAUSED", "lunch")
    with pytest.raises(ak.TransitionError, match="from PAUSED to step a"), flows.step("w", "a"):
        pass
    with pytest.raises(ak.TransitionError):
        flows.wait("w")
    flows.resume("w")
    flows.wait("w", "an approval")
    flows.resume("w")
    flows.cancel("w", "no longer wanted")
    for act in (flows.pause, flows.resume, flows.complete):
        with pytest.raises(ak.TransitionError):
            act("w")
    assert flows["w"].status == "CANCELLED"
    assert [change.new.status for change in flows.records.history("w") if change.new] == [
        "CANCELLED",
        "RUNNING",
        "WAITING",
        "RUNNING",
        "PAUSED",
        "RUNNING",
    ]


def refusal(act: Callable[[], object]) -> str | None:
    try:
        act()
    except ak.TransitionError as error:
        return str(error)
    except ak.InvalidRecordError as error:  # a retry of a completed workflow
        return None if "none of its steps failed" in str(error) else str(error)
    return None


def test_a_refusal_says_which_call_leads_on(memory: ak.Repository) -> None:
    flows = memory.workflows
    ways = {
        "PAUSED": r"resume\(\) it first$",
        "WAITING": r"resume\(\) it first$",
        "FAILED": r"retry\(\) the step that failed, or resume\(\) it, first$",
        "CANCELLED": r"it has no checkpoint to resume at; start\(\) another workflow$",
        "COMPLETED": r"retry\(\) takes back a step that you name$",
    }
    to = {
        "PAUSED": lambda: flows.pause("w"),
        "WAITING": lambda: flows.wait("w"),
        "FAILED": lambda: flows.fail("w", "a", "no"),
        "CANCELLED": lambda: flows.cancel("w"),
        "COMPLETED": lambda: flows.complete("w"),
    }
    acts: dict[str, Callable[[], object]] = {
        **to,
        "RUNNING by retry": lambda: flows.retry("w"),
        "RUNNING": lambda: flows.resume("w"),
        "step a": lambda: run_steps(flows, "w", "a"),
    }
    refused = dict[str, set[str]]()
    for status, way in ways.items():
        for new, act in acts.items():
            if "w" in flows.records:
                flows.records.delete("w")
            flows.start("w", ["a", "b"])
            to[status]()
            assert flows["w"].status == status
            said = refusal(act)
            if said is not None:
                assert re.fullmatch(f"Workflow 'w' cannot go from {status} to {new}: {way}", said), said
                refused.setdefault(status, set()).add(new)
    assert refused == {
        "PAUSED": {"WAITING", "FAILED", "COMPLETED", "RUNNING by retry", "step a"},
        "WAITING": {"COMPLETED", "RUNNING by retry", "step a"},
        "FAILED": {"PAUSED", "WAITING", "COMPLETED"},
        "CANCELLED": {"PAUSED", "WAITING", "FAILED", "COMPLETED", "RUNNING by retry", "RUNNING", "step a"},
        "COMPLETED": {"PAUSED", "WAITING", "FAILED", "CANCELLED", "RUNNING", "step a"},
    }


def test_a_refusal_names_the_checkpoints_where_there_are_some(memory: ak.Repository) -> None:
    flows = memory.workflows
    flows.start("w", ["a"])
    flows.checkpoint("w")
    flows.cancel("w")
    with pytest.raises(
        ak.TransitionError, match=r"from CANCELLED to RUNNING: resume\(at=…\) goes back to a checkpoint$"
    ):
        flows.resume("w")
    flows.resume("w", at=1)
    run_steps(flows, "w", "a")
    with pytest.raises(ak.TransitionError, match=r"name; resume\(at=…\) goes back to a checkpoint$"):
        flows.cancel("w")


def test_a_step_that_runs_while_it_is_cancelled_is_recorded_and_starts_nothing(memory: ak.Repository) -> None:
    """AAF-7: cancel in the middle of a step."""
    flows = memory.workflows
    flows.start("w", ["a", "b"])
    with flows.step("w", "a") as step:
        assert not step.is_cancelled
        flows.cancel("w")
        assert step.is_cancelled
        step.result = 1
    assert (flows["w"].status, flows["w"].step("a").result) == ("CANCELLED", 1)


@pytest.mark.parametrize(
    ("error", "act"),
    [
        (ak.RecordNotFoundError, lambda flows: flows["nowhere"]),
        (ak.InvalidRecordError, lambda flows: flows.skip("w", "nowhere")),
        (ak.InvalidRecordError, lambda flows: flows.start("x", ["a", "a"])),
        (ak.InvalidRecordError, lambda flows: flows.start("x", context={"a": object()})),
        (ak.InvalidRecordError, lambda flows: run_steps(flows, "w", "a", "a")),
    ],
)
def test_what_is_wrong_is_one_clear_error(
    memory: ak.Repository, error: type[Exception], act: Callable[[Workflows], object]
) -> None:
    flows = memory.workflows
    flows.start("w", ["a", "b"])
    with pytest.raises(error) as found:
        act(flows)
    assert "\n" not in str(found.value)


def test_steps_are_added_as_they_are_entered_where_none_are_named(memory: ak.Repository) -> None:
    flows = memory.workflows
    flows.start("w")
    run_steps(flows, "w", "look", "leap")
    assert [step.name for step in flows["w"].steps] == ["look", "leap"]
    assert flows.complete("w").status == "COMPLETED"


def test_a_checkout_rewinds_a_workflow_with_the_variables(repo: ak.Repository) -> None:
    """The plane `branch`: a workflow belongs to a line of history."""
    flows = repo.workflows
    with ak.Versioned(repo) as state:
        flows.start("w", ["a", "b"])
        state["x"] = 1
        run_steps(flows, "w", "a")
        state.commit("one")
        repo.create_tag("one", repo.resolve("HEAD"))
        state["x"] = 2
        run_steps(flows, "w", "b")
        state.commit("two")
        assert flows["w"].status == "COMPLETED"
        state.checkout("one")
        assert (state["x"], flows.progress("w").current, flows["w"].status) == (1, 1, "RUNNING")


def test_a_step_whose_process_was_killed_can_be_done_by_another(
    repo: ak.Repository, child: Callable[[str], subprocess.Popen[str]]
) -> None:
    flows = repo.workflows
    worker = child("""
        repo.workflows.start("w", ["a"])
        with repo.workflows.step("w", "a"):
            print("within", flush=True)
            input()
    """)
    with pytest.raises(ak.InvalidRecordError, match="another process is at its step"):
        run_steps(flows, "w", "a")
    worker.kill()
    worker.wait()
    run_steps(flows, "w", "a")
    assert (flows["w"].status, flows["w"].step("a").attempts) == ("COMPLETED", 2)


def test_a_step_can_be_a_task_of_an_agent(memory: ak.Repository) -> None:
    agent = ak.Agent("adder", model=ScriptedModel(["task.success(1 + 1)"]))
    memory.workflows.start("w", ["add"])
    with memory.workflows.step("w", "add") as step:
        step.result = agent("Add one and one.")
    assert memory.workflows["w"].step("add").result == 2


# -- what must not end an approval, and what is over


def test_a_retry_ends_no_approval_and_no_pause(memory: ak.Repository) -> None:
    flows = memory.workflows
    for name, stop in (("a", flows.wait), ("b", flows.pause), ("c", flows.cancel)):
        flows.start(name, ["one"])
        stop(name, "approval")
        with pytest.raises(ak.TransitionError):
            flows.retry(name)
    assert flows["a"].status == "WAITING"


def test_a_retry_without_a_failure_names_its_step(memory: ak.Repository) -> None:
    flows = memory.workflows
    flows.start("a", ["one"])
    with pytest.raises(ak.InvalidRecordError, match="none of its steps failed"):
        flows.retry("a")


def test_a_workflow_whose_last_step_was_skipped_while_it_stood_is_completed_as_it_goes_on(
    memory: ak.Repository,
) -> None:
    flows = memory.workflows
    for name, stop in (("a", flows.wait), ("b", flows.pause)):
        flows.start(name, ["one"])
        stop(name)
        flows.skip(name, "one")
        assert flows.resume(name).status == "COMPLETED"


def test_threads_do_not_do_one_step_at_once(memory: ak.Repository) -> None:
    flows = memory.workflows
    flows.start("a", ["one"])
    gate, began = threading.Barrier(3), list[str]()
    is_over = threading.Event()

    def note(what: str) -> None:
        began.append(what)
        if len(began) == len(threads):  # all others were refused: the step ends
            is_over.set()

    def work() -> None:
        gate.wait()
        try:
            with flows.step("a", "one"):
                note("began")
                is_over.wait(10)
        except ak.InvalidRecordError as error:
            note(str(error).rpartition(": ")[2])

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (began.count("began"), len(began)) == (1, 3)
    assert flows["a"].step("one").attempts == 1


def test_what_a_step_cannot_do_now_says_what_to_do_and_calls_nothing_invalid(memory: ak.Repository) -> None:
    flows = memory.workflows
    flows.start("k", ["a", "b"])

    def enter_within() -> None:
        with flows.step("k", "b"):
            run_steps(flows, "k", "b")

    run_steps(flows, "k", "a")
    acts: dict[str, Callable[[], object]] = {
        "its step a is done; retry('k', 'a') takes it back": lambda: run_steps(flows, "k", "a"),
        "it has no step 'zz' (its steps: a, b)": lambda: run_steps(flows, "k", "zz"),
        "none of its steps failed; name the one to take back: retry('k', step)": lambda: flows.retry("k"),
        "this process is at its step b already; enter it once, and wait until it ends": enter_within,
    }
    for said, act in acts.items():
        with pytest.raises(ak.RecordStateError) as found:
            act()
        assert str(found.value) == f"Workflow 'k': {said}"
        assert isinstance(found.value, ak.InvalidRecordError)


def test_one_text_is_not_several_steps(memory: ak.Repository) -> None:
    with pytest.raises(TypeError, match="list of text"):
        memory.workflows.start("s", "load")


def test_a_checkpoint_that_is_not_there_is_said_to_be_of_its_workflow(memory: ak.Repository) -> None:
    memory.workflows.start("a", ["one"])
    with pytest.raises(ak.RecordNotFoundError, match="there is no checkpoint '7' of workflow 'a'"):
        memory.workflows.resume("a", at=7)


def test_a_workflow_that_is_over_can_be_deleted_with_its_checkpoints(repo: ak.Repository) -> None:
    flows = repo.workflows
    flows.start("nightly", ["load"])
    flows.start("nightly@1", ["load"])
    flows.checkpoint("nightly", "first")
    flows.checkpoint("nightly@1", "its own")
    for way, status in ((lambda: None, "RUNNING"), (lambda: flows.pause("nightly"), "PAUSED")):
        way()
        with pytest.raises(
            ak.RecordError, match=rf"^Workflow 'nightly': it is {status}; cancel\('nightly'\) it first$"
        ):
            flows.delete("nightly")
        assert (flows["nightly"].status, len(flows.checkpoints("nightly"))) == (status, 1)
    flows.cancel("nightly")
    repo.create_tag("before")
    assert (flows.delete("nightly"), flows.delete("nightly")) == (True, False)
    assert ("nightly" in flows, flows.checkpoints("nightly")) == (False, [])
    assert [point.name for point in flows.checkpoints("nightly@1")] == ["its own"]
    assert flows.records.at("before")["nightly"].status == "CANCELLED"
    assert flows.start("nightly", ["load"]).id == "nightly"


def test_a_record_of_a_workflow_says_which_call_leads_on_too(memory: ak.Repository) -> None:
    flows = memory.workflows
    flows.start("nightly", ["load"])
    flows.skip("nightly", "load")
    said = "Workflow 'nightly' cannot go from COMPLETED to PENDING: only RUNNING can follow; retry() takes back a step that you name"
    with pytest.raises(ak.TransitionError, match=re.escape(said)):
        flows.records.update("nightly", status="PENDING")


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_a_workflow_and_its_steps_have_names(memory: ak.Repository, name: str) -> None:
    starts: tuple[Callable[[], object], ...] = (
        lambda: memory.workflows.start(name),
        lambda: memory.workflows.start("nightly", ["load", name]),
    )
    for act in starts:
        with pytest.raises(ValueError, match="not empty"):
            act()
    assert memory.workflows.list() == []


def test_a_workflow_whose_step_still_runs_is_not_deleted(memory: ak.Repository) -> None:
    flows = memory.workflows
    flows.start("nightly", ["load"])
    with flows.step("nightly", "load") as step:
        flows.cancel("nightly")
        with pytest.raises(ak.RecordError, match=r"this process is at its step load; wait until it ends$"):
            flows.delete("nightly")
        step.result = 5
    assert flows["nightly"].step("load").result == 5
    assert flows.delete("nightly")
