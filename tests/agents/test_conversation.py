"""What an agent remembers follows the history: its runs whose steps lie on the line to where it is."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.agents import Agent, FunctionModel, Turn, messages
from agent_kernel.agents.agent import reopen_run
from agent_kernel.agents.events import Action, Compaction, TaskStart
from agent_kernel.agents.execution import ExecutionContext
from agent_kernel.agents.models import AssistantMessage, Message, Request, ToolResult, UserMessage
from agent_kernel.errors import ModelError, NothingToUndoError
from agent_kernel.repository import NO_CHAT, Retention, hex_of
from agent_kernel.session import Repository, Session
from agent_kernel.session.versioned import Versioned
from agent_kernel.storage import MemoryStore


class Chat:
    """An agent with a model that answers what it is told to, and remembers what it was asked."""

    def __init__(self, session: Session | None = None) -> None:
        self.session = session or Session({}, Repository.open(MemoryStore()))
        self.requests: list[Request] = []
        self.answers: list[str | Turn] = []
        self.agent = Agent("ada", model=FunctionModel(self._answer), state=self.session)

    def _answer(self, request: Request) -> str | Turn:
        self.requests.append(request)
        return self.answers.pop(0)

    def do(self, task: str, *answers: str | Turn) -> None:
        self.answers = list(answers) or ["x = globals().get('x', 0) + 1\ntask.success(x)"]
        self.agent(task)

    def remembers(self) -> list[str]:
        """The tasks that the model would be told of now."""
        place = ExecutionContext(self.session.namespace, self.session)
        return tasks(messages.messages(place.event_store, messages.find_remembered_runs(place, "ada")))


def tasks(messages: list[Message]) -> list[str]:
    return [message.text.splitlines()[0] for message in messages if isinstance(message, UserMessage)]


def test_a_task_goes_on_with_the_tasks_before() -> None:
    chat = Chat()
    chat.do("first")
    chat.do("second")
    told = chat.requests[-1].messages
    assert [type(message) for message in told] == [
        UserMessage,
        AssistantMessage,
        ToolResult,
        AssistantMessage,
        UserMessage,
    ]
    assert tasks(list(told)) == ["first", "second"]
    assert told[3].text == "(done: int 1)"


def test_after_an_undo_the_model_is_not_told_of_the_run_that_was_undone() -> None:
    chat = Chat()
    chat.do("first")
    chat.do("second")
    chat.session.undo()
    assert chat.session.namespace["x"] == 1
    chat.do("third")
    assert tasks(list(chat.requests[-1].messages)) == ["first", "third"]
    assert "second" not in chat.requests[-1].text


def test_redo_brings_the_conversation_back_too() -> None:
    chat = Chat()
    chat.do("first")
    chat.session.undo()
    assert chat.remembers() == []
    chat.session.redo()
    assert chat.remembers() == ["first"]


def test_undoing_all_there_is_leaves_no_conversation() -> None:
    chat = Chat()
    chat.do("first")
    commit = chat.session.undo().record
    assert commit is not None
    assert commit.chat == NO_CHAT
    assert chat.remembers() == []


def test_a_checkout_in_the_middle_of_a_run_rewinds_to_there() -> None:
    chat = Chat()
    chat.do("count", "x = 1", "x = 2", "task.success(x)")
    chat.session.checkout("HEAD~2")
    chat.do("and now")
    told = chat.requests[-1].messages
    assert [getattr(message, "code", None) for message in told] == [None, "x = 1", None, None, None]
    assert told[3].text == "(stopped before it was done)"


def test_a_rollback_rewinds_the_conversation_with_the_variables() -> None:
    chat = Chat()
    chat.do("first")
    chat.do("second")
    chat.session.rollback("HEAD~1")
    assert chat.remembers() == ["first"]
    chat.do("third")
    assert chat.remembers() == ["first", "third"]


def test_undo_of_the_variables_alone_keeps_the_conversation() -> None:
    chat = Chat()
    chat.do("first")
    chat.do("second")
    chat.session.undo(only="vars")
    assert (chat.session.namespace["x"], chat.remembers()) == (1, ["first", "second"])
    chat.session.redo()
    assert (chat.session.namespace["x"], chat.remembers()) == (2, ["first", "second"])


def test_undo_of_the_conversation_alone_keeps_the_variables_and_can_be_undone() -> None:
    chat = Chat()
    chat.do("first")
    chat.do("second")
    chat.session.undo(only="chat")
    assert chat.session.namespace["x"] == 2
    assert chat.remembers() == ["first"]
    chat.session.undo()
    assert chat.session.namespace["x"] == 2
    assert chat.remembers() == ["first", "second"]


def test_redo_brings_a_conversation_back_that_was_taken_back_alone() -> None:
    chat = Chat()
    chat.do("first")
    chat.do("second")
    chat.session.undo(only="chat")
    chat.session.redo()
    assert (chat.session.namespace["x"], chat.remembers()) == (2, ["first", "second"])
    chat.session.undo()
    assert (chat.session.namespace["x"], chat.remembers()) == (1, ["first"])


def test_taking_the_conversation_back_again_goes_further_and_redo_comes_back_step_by_step() -> None:
    chat = Chat()
    chat.do("first")
    chat.do("second")
    found: list[list[str]] = []
    for _ in range(2):
        chat.session.undo(only="chat")
        found.append(chat.remembers())
    with pytest.raises(NothingToUndoError):
        chat.session.undo(only="chat")
    for _ in range(2):
        chat.session.redo()
        found.append(chat.remembers())
    assert found == [["first"], [], ["first"], ["first", "second"]]
    with pytest.raises(NothingToUndoError):
        chat.session.redo()


@pytest.mark.parametrize("verb", ["checkout", "rollback"])
def test_going_back_can_be_told_what_alone_goes_back(verb: str) -> None:
    chat = Chat()
    chat.do("first")
    chat.do("second")
    chat.do("third")
    go: Any = getattr(chat.session, verb)
    go("HEAD~1", only="chat")
    assert (chat.session.namespace["x"], chat.remembers()) == (3, ["first", "second"])
    go("HEAD~3", only="vars")
    assert (chat.session.namespace["x"], chat.remembers()) == (1, ["first", "second"])
    assert chat.session.branch == "main"
    with pytest.raises(ValueError, match="only"):
        chat.session.checkout("HEAD", ["x"], only="vars")


def test_taking_one_variable_from_elsewhere_leaves_the_conversation_alone() -> None:
    chat = Chat()
    chat.do("first")
    chat.do("second")
    chat.session.checkout("HEAD~1", ["x"])
    assert chat.session.namespace["x"] == 1
    assert chat.remembers() == ["first", "second"]


def test_branches_have_conversations_of_their_own() -> None:
    chat = Chat()
    chat.do("first")
    chat.session.switch("side", create=True)
    chat.do("aside")
    chat.session.switch("main")
    assert chat.remembers() == ["first"]
    chat.session.switch("side")
    assert chat.remembers() == ["first", "aside"]


def test_a_question_that_took_no_step_is_remembered_where_it_was_asked() -> None:
    chat = Chat()
    chat.do("first")
    chat.do("what is it?", Turn(text="It is a number."))
    assert chat.remembers() == ["first", "what is it?"]
    chat.do("second")
    told = chat.requests[-1].messages
    assert [message.text for message in told if isinstance(message, AssistantMessage)][-1] == "It is a number."
    chat.session.undo()
    assert chat.remembers() == ["first", "what is it?"]
    chat.session.undo()
    assert chat.remembers() == []


def test_another_agent_remembers_other_runs() -> None:
    chat = Chat()
    chat.do("first")
    place = ExecutionContext(chat.session.namespace, chat.session)
    assert messages.find_remembered_runs(place, "ben") == ()


def test_the_conversation_survives_pruning_and_forgetting_commits() -> None:
    chat = Chat()
    for task in ("first", "second", "third"):
        chat.do(task)
    chat.session.undo(only="vars")
    chat.session.prune(Retention(keep_last=3))
    assert chat.remembers() == ["second", "third"]
    chat = Chat()
    for task in ("first", "second"):
        chat.do(task)
    chat.session.undo(only="chat")
    first = chat.session.repo.resolve("HEAD~2")
    chat.session.forget(hex_of(first))
    assert chat.session.repo.commit_at(chat.session.repo.resolve("HEAD")).chat == NO_CHAT
    assert chat.remembers() == []


def test_what_is_too_much_is_left_out_oldest_first_and_the_run_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    chat = Chat()
    for number in range(6):
        chat.do(f"task {number} {'word ' * 100}")
    monkeypatch.setattr(messages, "MOST_CHARS", 1_500)
    chat.do("the last one")
    said = tasks(list(chat.requests[-1].messages))
    assert said[0].startswith("(Earlier parts")
    assert [line[:6] for line in said[1:]] == ["task 4", "task 5", "the la"]
    run = chat.session.repo.commit_at(chat.session.repo.resolve("HEAD")).run
    events = list(ExecutionContext({}, chat.session).event_store.of(run))
    assert isinstance(events[1], Compaction)
    assert events[1].dropped > 0


def test_what_is_sent_is_the_same_in_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MOST_CHARS", 200)
    with Versioned(tmp_path / "store") as state:
        chat = Chat(state.session)
        for task in ("first", "second", "third"):
            chat.do(task)
        chat.answers = ["y = 1", "task.success(y)"]
        run = chat.agent.start("fourth")
        for event in run:
            if isinstance(event, Action) and event.step == 2:
                break
        sent = chat.requests[-1]
        assert any(isinstance(event, Compaction) for event in run.events)
    monkeypatch.setattr(messages, "MOST_CHARS", 50_000)  # what was sent does not depend on what would be sent now
    with Versioned(tmp_path / "store") as state:
        asked: list[Request] = []

        def answer(request: Request) -> str:
            asked.append(request)
            return "task.success(3)"

        again = reopen_run(
            ExecutionContext(state.session.namespace, state.session), run.id, model=FunctionModel(answer)
        )
        list(again.stream())
        assert again.status == "completed"
        start = again.events[0]
        assert isinstance(start, TaskStart)
        assert len(start.earlier) > 0
        assert not asked  # the answer that was stored is run, not asked for again
        assert again._run_executor.setup.earlier
        rebuilt = Request(sent.instructions, tuple(_messages(again)), sent.turn, sent.timeout_s)
        assert rebuilt.messages[: len(sent.messages)] == sent.messages


def _messages(run: Any) -> list[Message]:
    from agent_kernel.agents.messages import messages_of

    return messages_of(run.events, run._run_executor.setup.earlier)


def test_each_request_begins_with_the_one_before_word_for_word() -> None:
    chat = Chat()
    chat.do("first", "x = [1]", "1 / 0", "x.append(2)", "task.success(x)")
    chat.do("second", "x.append(3)", Turn(text="ok"))
    chat.answers = [Turn(text="Hm."), "task.success(1)", "task.success(x)"]
    chat.agent("third", returns=list)
    requests = chat.requests
    assert len(requests) == 9
    for before, after in pairwise(requests):
        assert after.messages[: len(before.messages)] == before.messages
    assert len({request.instructions for request in requests[:6]}) == 1


def test_a_run_that_goes_on_is_not_told_of_its_steps_that_were_taken_back() -> None:
    chat = Chat()
    chat.answers = ["first = 1", "task.clarify('Which?')"]
    run = chat.agent.start("Do it in steps")
    for _ in run:
        pass
    chat.session.undo()
    chat.answers = ["task.clarify('And now?')"]
    for _ in run.resume("This one.").stream():
        pass
    assert "first = 1" not in chat.requests[-1].text
    assert "This one." in chat.requests[-1].text
    again = reopen_run(ExecutionContext(chat.session.namespace, chat.session), run.id, agent=chat.agent)
    chat.answers = ["task.success('first' in globals())"]
    assert again.resume("The other one.").result() is False
    assert "first = 1" not in chat.requests[-1].text


def test_a_step_that_waited_runs_after_an_undo_and_knows_of_nothing_else() -> None:
    chat = Chat()
    chat.answers = ["first = 1", "import os\nos.getpid(); os.system('true')"]
    run = chat.agent.start("Do it in steps", approve="risky")
    for _ in run:
        pass
    chat.session.undo()
    chat.answers = ["task.success('first' in globals())"]
    assert run.approve().result() is False
    assert "first = 1" not in chat.requests[-1].text
    assert "os.getpid" in chat.requests[-1].text


def test_what_is_brought_again_is_told_again() -> None:
    chat = Chat()
    chat.answers = ["first = 1", "task.clarify('Which?')"]
    run = chat.agent.start("Do it in steps")
    for _ in run:
        pass
    chat.session.undo()
    chat.answers = [Turn(error=ModelError("function", "no answer"))]
    for _ in run.resume("This one.").stream():
        pass
    assert "first = 1" not in chat.requests[-1].text
    chat.session.redo()
    chat.answers = ["task.success(first)"]
    assert run.resume("The other one.").result() == 1
    assert "first = 1" in chat.requests[-1].text
