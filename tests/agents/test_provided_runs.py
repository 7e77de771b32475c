"""Runs whose model is a provider's: tools, words, settings, errors that pass and those that stay."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_kernel import Versioned, open
from agent_kernel.agents import Agent, Limits
from agent_kernel.agents.agent import reopen_run
from agent_kernel.agents.events import Action, Cancelled, Error, Fail, TaskStart
from agent_kernel.agents.execution import ExecutionContext
from agent_kernel.agents.models import AssistantMessage, Request, ToolResult, UserMessage, model_named
from agent_kernel.errors import TaskFailedError, TaskPendingError
from tests.agents.asking import asked
from tests.agents.openai_server import OpenAIServer, Reply, calls, refuses, says, whole

pytestmark = pytest.mark.usefixtures("servers_on_the_loopback_are_asked")


@pytest.fixture(autouse=True, scope="module")
def packages() -> None:
    """Load them for these tests: where they are not installed, each is skipped."""
    pytest.importorskip("pydantic_ai.models.openai")


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Versioned]:
    repo = open(tmp_path / "study")
    yield Versioned(repo)
    repo.close()


class TestRuns:
    def test_a_task_is_done_end_to_end(self, state: Versioned) -> None:
        with OpenAIServer(calls("x = 6 * 7\nx", text="I multiply."), calls("task.success(x)")).running() as server:
            agent = Agent("analyst", model=f"openai:local@{server.address}", state=state)
            run = agent.start("What is six times seven?", returns=int)
            assert run.result() == 42
            returned = server.requests[1]["messages"][-1]
            assert returned["role"] == "tool"
            assert returned["content"].startswith("42")
        assert state["x"] == 42
        assert run.usage.tokens == 240

    def test_code_in_the_words_of_a_model_that_calls_no_tool_is_its_step(self, state: Versioned) -> None:
        first = says("I multiply.\n\n```python\n", "x = 6 * 7\n", "x\n```\nThen I ", "tell you.")
        with OpenAIServer(first, says("It is 42.")).running() as server:
            run = Agent("analyst", model=f"openai:local@{server.address}", state=state).start("Six times seven?")
            assert run.result() == "It is 42."
            assert [message["role"] for message in server.requests[1]["messages"]] == [
                "system", "user", "assistant", "user",
            ]  # fmt: skip
            answer, came = server.requests[1]["messages"][-2:]
            assert answer["content"] == "I multiply.\n\n```python\nx = 6 * 7\nx\n```\nThen I tell you."
            assert came["content"].startswith("What came of your code:\n42")
        assert state["x"] == 42
        step = next(event for event in run.events if isinstance(event, Action))
        assert (step.step, step.text, step.code) == (1, "I multiply.\n\nThen I tell you.", "x = 6 * 7\nx")
        assert state.session.head is not None
        assert state.session.repo.commit_at(state.session.head).run == run.id

    def test_such_code_is_reviewed_as_any_other(self, state: Versioned) -> None:
        with OpenAIServer(says("```py\nimport os; os.remove('x.csv')\n```"), says("Then not.")).running() as server:
            run = Agent(model=f"openai:local@{server.address}", state=state, approve="risky").start("Go on.")
            with pytest.raises(TaskPendingError):
                run.result()
            assert run.deny("it is needed").result() == "Then not."
            assert "it is needed" in server.requests[1]["messages"][-1]["content"]

    def test_a_model_that_has_called_the_tool_may_show_code_in_its_words(self, state: Versioned) -> None:
        shows = "So you write:\n```python\nx = 2\n```"
        with OpenAIServer(calls("x = 1"), says(shows)).running() as server:
            run = Agent(model=f"openai:local@{server.address}", state=state).start("How is x set?")
            assert run.result() == shows
        assert state["x"] == 1

    @pytest.mark.parametrize(
        "refused",
        [
            refuses(400, "local does not support tools"),
            refuses(400, '"auto" tool choice requires --enable-auto-tool-choice'),
            refuses(500, "tools param requires --jinja flag"),
        ],
    )
    def test_a_server_that_takes_no_tools_is_asked_without_them(self, state: Versioned, refused: Reply) -> None:
        replies = refused, says("```python\nx = 6 * 7\n```"), says("```python\ntask.success(x)\n```")
        with OpenAIServer(*replies).running() as server:
            run = Agent(model=f"openai:local@{server.address}", state=state).start("Do it.", returns=int)
            assert run.result() == 42
            assert ["tools" in request for request in server.requests] == [True, False, False]
            assert "answer with one fence of Python" in server.requests[1]["messages"][0]["content"]
        assert not any(isinstance(event, Error) for event in run.events)

    def test_a_conversation_with_calls_goes_on_in_words_that_take_turns(self) -> None:
        told = (
            UserMessage("Add."),
            AssistantMessage("First:", "1 + 1", "call_7"),
            ToolResult("call_7", "2"),
            UserMessage("Go on."),
        )
        with OpenAIServer(refuses(400, "no tools here"), says("Hi.")).running() as server:
            asked(model_named(f"openai:local@{server.address}"), Request("You work.", told))
            assert server.requests[1]["messages"][1:] == [
                {"role": "user", "content": "Add."},
                {"role": "assistant", "content": "First:\n\n```python\n1 + 1\n```"},
                {"role": "user", "content": "What came of your code:\n2\n\nGo on."},
            ]

    def test_the_settings_of_an_agent_reach_the_provider_and_outlive_the_process(self, state: Versioned) -> None:
        with OpenAIServer(calls("task.clarify('Which?')"), calls("task.success(1)")).running() as server:
            agent = Agent(
                model=f"openai:local@{server.address}",
                state=state,
                model_settings={"temperature": 0.25, "extra_headers": {"X-Team": "private-team"}},
            )
            run = agent.start("Do it.")
            for _ in run:
                pass
            assert server.headers[0]["x-team"] == "private-team"
            start = run.events[0]
            assert isinstance(start, TaskStart)
            assert start.settings == {"temperature": 0.25}
            again = reopen_run(ExecutionContext(state.session.namespace, state.session), run.id)
            assert again.resume("This one.").result() == 1
            assert [request["temperature"] for request in server.requests] == [0.25, 0.25]

    def test_an_error_that_passes_is_asked_again_and_told(self, state: Versioned) -> None:
        replies = refuses(429, "slow down", retry_after_ms="10"), says("d", end="drop"), calls("task.success(1)")
        with OpenAIServer(*replies).running() as server:
            run = Agent(model=f"openai:local@{server.address}", state=state).start("Do it.")
            assert run.result() == 1
            assert len(server.requests) == 3
        told = [event.message for event in run.events if isinstance(event, Error)]
        assert len(told) == 2
        assert "HTTP 429: slow down" in told[0]

    def test_an_error_that_stays_ends_the_run_as_failed_in_one_line(self, state: Versioned) -> None:
        with OpenAIServer(refuses(401, "Incorrect key")).running() as server:
            run = Agent(model=f"openai:local@{server.address}", state=state).start("Do it.")
            with pytest.raises(TaskFailedError, match="HTTP 401: Incorrect key"):
                run.result()
            assert len(server.requests) == 1
        assert isinstance(run.events[-1], Fail)

    def test_a_provider_that_stays_away_is_asked_so_often_and_no_more(self, state: Versioned) -> None:
        with OpenAIServer(refuses(503, "gone", retry_after_ms="5")).running() as server:
            agent = Agent(model=f"openai:local@{server.address}", state=state, limits=Limits(retries=2))
            with pytest.raises(TaskFailedError, match="HTTP 503: gone"):
                agent.start("Do it.").result()
            assert len(server.requests) == 3

    def test_a_model_that_says_nothing_more_meets_its_limit(self, state: Versioned) -> None:
        with OpenAIServer(says("Hm", end="hang")).running() as server:
            agent = Agent(model=f"openai:local@{server.address}", state=state, limits=Limits(model_s=0.5))
            run = agent.start("Do it.")
            began = time.monotonic()
            with pytest.raises(TaskFailedError, match=r"within 0\.5 s"):
                run.result()
            assert time.monotonic() - began < 10
            assert server.left.wait(5)
        assert run.outcome.limit == "model_s"

    def test_stopping_a_run_closes_the_connection(self, state: Versioned) -> None:
        with OpenAIServer(says("Hm", end="hang")).running() as server:
            run = Agent(model=f"openai:local@{server.address}", state=state).start("Do it.")

            def stop() -> None:
                server.asked.wait(20)
                time.sleep(0.2)
                run.cancel("enough")

            stopping = threading.Thread(target=stop)
            stopping.start()
            for _ in run:
                pass
            stopping.join()
            assert server.left.wait(5)
        assert run.status == "interrupted"
        assert isinstance(run.events[-1], Cancelled)
        assert not any(isinstance(event, Action) for event in run.events)

    def test_a_run_goes_on_in_another_process(self, tmp_path: Path) -> None:
        script = tmp_path / "resume.py"
        script.write_text(
            "import sys\n"
            "from agent_kernel import Versioned, open\n"
            "from agent_kernel.agents.agent import reopen_run\n"
            "from agent_kernel.agents.execution import ExecutionContext\n"
            "state = Versioned(open(sys.argv[1]))\n"
            "run = reopen_run(ExecutionContext(state.session.namespace, state.session), sys.argv[2])\n"
            "print(run.resume('the second').result(), state['seen'])\n"
        )
        replies = calls("seen = [1, 2]\ntask.clarify('Which one?')"), calls("task.success(seen[1])")
        with OpenAIServer(*replies).running() as server:
            repo = open(tmp_path / "study")
            state = Versioned(repo)
            run = Agent("analyst", model=f"openai:local@{server.address}", state=state).start("Choose.")
            for _ in run:
                pass
            assert run.status == "clarify"
            state.session.close()
            repo.close()
            command = [sys.executable, str(script), str(tmp_path / "study"), run.id]
            environment = {"PYTHONPATH": str(Path(__file__).parents[2]), **os.environ}
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=60)
            assert done.stdout.split() == ["2", "[1,", "2]"], done.stderr
            assert [message["role"] for message in server.requests[1]["messages"]] == [
                "system", "user", "assistant", "tool", "user",
            ]  # fmt: skip
            assert server.requests[1]["messages"][-1]["content"].endswith("the second")


class TestModelsThatDoNotStream:
    """They are asked for their whole answer."""

    def test_a_function_model_with_nothing_but_a_function_answers(self, state: Versioned) -> None:
        from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
        from pydantic_ai.models.function import AgentInfo, FunctionModel

        def play(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            code = "x = 6 * 7" if len(messages) == 1 else "task.success(x)"
            return ModelResponse(parts=[TextPart("I multiply."), ToolCallPart("run_python", {"code": code})])

        run = Agent("analyst", model=FunctionModel(play), state=state).start("Six times seven?", returns=int)
        assert run.result() == 42
        step = next(event for event in run.events if isinstance(event, Action))
        assert (step.text, step.code) == ("I multiply.", "x = 6 * 7")

    def test_so_does_a_model_of_a_class_of_its_own(self, state: Versioned) -> None:
        from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
        from pydantic_ai.models import Model, ModelRequestParameters
        from pydantic_ai.settings import ModelSettings

        class Whole(Model):
            @property
            def model_name(self) -> str:
                return "whole"

            @property
            def system(self) -> str:
                return "own"

            async def request(
                self,
                messages: list[ModelMessage],
                model_settings: ModelSettings | None,
                model_request_parameters: ModelRequestParameters,
            ) -> ModelResponse:
                return ModelResponse(parts=[ToolCallPart("run_python", {"code": "task.success(42)"})])

        assert Agent("analyst", model=Whole(), state=state)("Six times seven?", returns=int) == 42

    def test_an_assertion_of_its_own_code_is_its_error(self, state: Versioned) -> None:
        from pydantic_ai.messages import ModelMessage, ModelResponse
        from pydantic_ai.models.function import AgentInfo, FunctionModel

        def play(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            raise AssertionError("no stream of thought")

        with pytest.raises(TaskFailedError, match="no stream of thought"):
            Agent("analyst", model=FunctionModel(play), state=state)("Six times seven?")

    def test_a_server_that_refuses_to_stream_is_asked_for_the_whole(self, state: Versioned) -> None:
        no = refuses(400, "Your organization must be verified to stream this model.")
        with OpenAIServer(no, whole("task.success(42)")).running() as server:
            agent = Agent("analyst", model=f"openai:local@{server.address}", state=state)
            assert agent("Six times seven?", returns=int) == 42
            assert [bool(asked.get("stream")) for asked in server.requests] == [True, False]
