"""Models of providers: any address that speaks as OpenAI does, with all that can go wrong on the way."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from agent_kernel import Versioned, open
from agent_kernel.agents import Agent, Limits
from agent_kernel.agents.agent import reopened
from agent_kernel.agents.events import Action, Cancelled, Error, Fail, TaskStart
from agent_kernel.agents.models import Answer, Delta, Model, Request, Returned, Said, Told
from agent_kernel.agents.models.naming import model_named
from agent_kernel.agents.place import Place
from agent_kernel.errors import MissingExtraError, ModelError, TaskFailedError, TaskPendingError, UnknownPriceError
from tests.agents.openai_server import OpenAIServer, Reply, calls, refuses, says

pytest.importorskip("pydantic_ai.models.openai")


@pytest.fixture(autouse=True)
def servers_on_the_loopback_are_asked(no_provider_is_asked: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing else is: there is no key, and every name in this file has an address on the loopback."""
    monkeypatch.setattr("pydantic_ai.models.ALLOW_MODEL_REQUESTS", True)


QUESTION = Request("Work.", (Told("Do it."),))


def asked(model: Model, request: Request = QUESTION) -> tuple[list[Delta], Answer]:
    async def ask() -> list[Delta | Answer]:
        return [piece async for piece in model.stream(request)]

    *deltas, answer = asyncio.run(ask())
    assert isinstance(answer, Answer)
    return [delta for delta in deltas if isinstance(delta, Delta)], answer


def answered(*replies: Reply, request: Request = QUESTION, name: str = "local") -> tuple[list[Delta], Answer]:
    with OpenAIServer(*replies).running() as server:
        return asked(model_named(f"openai:{name}@{server.address}"), request)


def refused(reply: Reply) -> ModelError:
    with pytest.raises(ModelError) as caught:
        answered(reply)
    return caught.value


def text_of(deltas: list[Delta], kind: str) -> list[str]:
    return [delta.text for delta in deltas if delta.kind == kind]


class TestAnswers:
    def test_words_come_as_they_are_written(self) -> None:
        deltas, answer = answered(says("It ", "is ", "done."))
        assert text_of(deltas, "text") == ["It ", "is ", "done."]
        assert (answer.text, answer.code) == ("It is done.", None)

    @pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
    def test_thinking_comes_apart_from_the_words(self, field: str) -> None:
        deltas, answer = answered(Reply([{field: "Let me "}, {field: "see."}, {"content": "Seen."}]))
        assert text_of(deltas, "thinking") == ["Let me ", "see."]
        assert (answer.thinking, answer.text) == ("Let me see.", "Seen.")

    def test_code_comes_decoded_while_its_json_is_still_coming(self) -> None:
        code = 'print("naïve \\n 😀")\nx = {"a": [1]}'
        deltas, answer = answered(calls(code, size=2, text="First this."))
        pieces = text_of(deltas, "code")
        assert "".join(pieces) == code == answer.code
        assert len(pieces) > 20
        assert answer.call == "call_0"

    def test_several_calls_are_one_step(self) -> None:
        deltas, answer = answered(calls("a = 1", "b = 2"))
        assert answer.code == "a = 1\n\nb = 2" == "".join(text_of(deltas, "code"))

    def test_what_no_encoding_can_carry_is_replaced_before_it_is_stored(self) -> None:
        deltas, answer = answered(says("half \ud800 a character"))
        assert answer.text == "half \ufffd a character" == "".join(text_of(deltas, "text"))

    def test_tokens_are_counted_and_a_known_model_has_a_price(self) -> None:
        _, known = answered(Reply([{"content": "Hi."}], usage=(1_000, 100), model="gpt-4o"), name="gpt-4o")
        assert (known.usage.input_tokens, known.usage.output_tokens) == (1_000, 100)
        assert known.usage.cost is not None
        assert known.usage.cost > 0

    def test_a_server_that_does_not_say_what_an_answer_took_is_estimated_so_that_limits_bite(self) -> None:
        with OpenAIServer(calls("x = 'a long line of text'", usage=None)).running() as server:
            agent = Agent(model=f"openai:quiet@{server.address}", limits=Limits(tokens=500))
            run = agent.start("Never end")
            with pytest.raises(TaskFailedError) as caught:
                run.result()
        assert caught.value.limit == "tokens"
        assert run.usage.input_tokens > 400
        assert run.usage.output_tokens >= 6
        assert run.usage.cost is None

    def test_the_price_of_an_unknown_model_is_unknown(self) -> None:
        _, answer = answered(says("Hi.", model="my-own-model"))
        assert answer.usage.cost is None

    def test_whether_a_price_is_known_is_known_before_anything_is_asked(self) -> None:
        with OpenAIServer(says("Hi.")).running() as server:
            assert model_named(f"openai:gpt-4o@{server.address}").has_price()  # type: ignore[attr-defined]  # a provider's
            agent = Agent(model=f"openai:my-own@{server.address}", limits=Limits(cost=1.0))
            with pytest.raises(UnknownPriceError, match="what openai:my-own@"):
                _ = agent.start("Go on")
            assert not server.requests


class TestRequests:
    def sent(self, request: Request = QUESTION) -> dict[str, object]:
        with OpenAIServer(says("Hi.")).running() as server:
            asked(model_named(f"openai:local@{server.address}"), request)
            return server.requests[0]

    def test_what_was_said_before_is_sent_without_what_was_thought(self) -> None:
        told = (Told("Add."), Said("First:", "1 + 1", "call_7"), Returned("call_7", "2"), Told("Go on."))
        messages = self.sent(Request("You work.", told))["messages"]
        call = {
            "id": "call_7",
            "type": "function",
            "function": {"name": "run_python", "arguments": '{"code":"1 + 1"}'},
        }
        assert messages == [
            {"role": "system", "content": "You work."},
            {"role": "user", "content": "Add."},
            {"role": "assistant", "content": "First:", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_7", "content": "2"},
            {"role": "user", "content": "Go on."},
        ]

    def test_settings_go_along(self) -> None:
        body = self.sent(Request("Work.", (Told("Do it."),), settings={"temperature": 0.25, "max_tokens": 99}))
        assert (body["temperature"], body["max_tokens"]) == (0.25, 99)

    def test_an_unknown_server_is_sent_nothing_that_only_openai_knows(self) -> None:
        assert not {"parallel_tool_calls", "max_completion_tokens", "store"} & set(self.sent())

    def test_what_a_model_ignores_is_not_sent_and_warns_of_nothing(self) -> None:
        from pydantic_ai.models.function import FunctionModel

        class Ignoring(FunctionModel):
            unsupported_settings = frozenset({"parallel_tool_calls", "max_retries"})

        async def stream(messages: object, info: object) -> object:
            yield "Hi."

        _, answer = asked(model_named(Ignoring(stream_function=stream)))  # type: ignore[arg-type]
        assert answer.text == "Hi."


class TestNames:
    def test_an_address_in_the_environment_counts_for_every_name(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with OpenAIServer(says("Hi.")).running() as server:
            monkeypatch.setenv("OPENAI_BASE_URL", server.address)
            monkeypatch.setenv("OPENAI_API_KEY", "sk-of-this-server")
            asked(model_named("openai:local"))
            assert server.paths == ["/v1/chat/completions"]
            assert server.headers[0]["authorization"] == "Bearer sk-of-this-server"

    def test_an_address_in_a_name_gets_no_key_that_is_meant_for_another(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-for-openai-alone")
        with OpenAIServer(says("Hi.")).running() as server:
            asked(model_named(f"openai:local@{server.address}"))
            assert "sk-for-openai-alone" not in json.dumps(server.headers)

    @pytest.mark.parametrize("kind", ["openai-chat", "ollama", "vllm"])
    def test_other_kinds_of_server_take_an_address_too(self, kind: str) -> None:
        with OpenAIServer(says("Hi.")).running() as server:
            assert asked(model_named(f"{kind}:qwen3@{server.address}"))[1].text == "Hi."

    def test_where_openai_itself_is_meant_its_newer_interface_is_used(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from pydantic_ai.models.openai import OpenAIResponsesModel

        monkeypatch.setenv("OPENAI_API_KEY", "sk-nothing")
        model = model_named("openai:gpt-5")
        assert isinstance(model._model, OpenAIResponsesModel)  # type: ignore[attr-defined]

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("opanai:gpt-5", "openai:gpt-5"),
            ("antropic:claude", "anthropic:claude"),
            ("google-gla:gemini-2.5-pro", "google:gemini-2.5-pro"),
            ("gpt-4o-mini@x", "PROVIDER:NAME"),
            ("claude-sonnet-4-6", "did you mean anthropic:claude-sonnet-4-6 or"),
            ("ollama", "ollama:NAME"),
            ("nothing:at-all", "the providers are anthropic, google, mistral, ollama, openai, vllm and "),
            ("groq:llama@http://127.0.0.1:1/v1", "only openai"),
        ],
    )
    def test_a_wrong_name_tells_what_is_close(self, name: str, said: str) -> None:
        with pytest.raises(ModelError) as caught:
            model_named(name)
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("openai:x@notaurl", "'notaurl' is no address: it begins with http:// or https://"),
            ("openai:x@http://", "'http://' is no address: it names no host"),
        ],
    )
    def test_what_is_no_address_is_said_to_be_none(self, name: str, said: str) -> None:
        with pytest.raises(ModelError, match=said):
            model_named(name)

    @pytest.mark.parametrize(
        ("name", "variable"), [("openai:gpt-5", "OPENAI_API_KEY"), ("ollama:qwen3", "OLLAMA_BASE_URL")]
    )
    def test_what_the_environment_lacks_is_named(self, name: str, variable: str) -> None:
        with pytest.raises(ModelError, match=f"set the environment variable {variable}$"):
            model_named(name)

    def test_an_object_of_pydantic_ai_is_a_model_and_is_found_again(self) -> None:
        from pydantic_ai.models.test import TestModel

        model = model_named(TestModel(custom_output_text="Hi.", call_tools=[]))
        assert asked(model)[1].text == "Hi."
        assert model_named(model.name) is model

    def test_what_is_no_model_is_told_apart(self) -> None:
        with pytest.raises(TypeError, match="not int"):
            model_named(42)


class TestRefusals:
    @pytest.mark.parametrize("status", [429, 500, 502, 503])
    def test_what_may_pass_can_be_asked_again(self, status: int) -> None:
        error = refused(refuses(status, "not now"))
        assert str(error).endswith(f"HTTP {status}: not now")
        assert error.retry_after_s == 1.0

    def test_the_wait_that_a_provider_asks_for_is_kept(self) -> None:
        assert refused(refuses(429, Retry_After="7")).retry_after_s == 7.0
        soon = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
        wait = refused(refuses(429, Retry_After=soon)).retry_after_s
        assert wait is not None
        assert 25 < wait <= 30

    def test_a_wait_of_an_hour_is_told_and_not_waited_for(self) -> None:
        error = refused(refuses(429, "later", Retry_After="3600"))
        assert error.retry_after_s is None
        assert "it asks to wait 3,600 s" in str(error)

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
    def test_what_stays_wrong_is_not_asked_again(self, status: int) -> None:
        assert refused(refuses(status)).retry_after_s is None

    def test_no_key_is_ever_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        key = "k3y-0f-n0-usual-shape"
        monkeypatch.setenv("OPENAI_API_KEY", key)
        with OpenAIServer(refuses(401, f"Incorrect API key: {key}")).running() as server:
            monkeypatch.setenv("OPENAI_BASE_URL", server.address)
            with pytest.raises(ModelError) as caught:
                asked(model_named("openai:local"))
        assert "HTTP 401: Incorrect API key" in str(caught.value)
        assert key not in str(caught.value)

    def test_nobody_at_the_address_is_one_line(self) -> None:
        with OpenAIServer().running() as server:
            address = server.address
        with pytest.raises(ModelError) as caught:
            asked(model_named(f"openai:local@{address}"))
        assert caught.value.retry_after_s == 1.0
        assert "Connect" in str(caught.value)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("end", ["drop", "eof"])
    @pytest.mark.parametrize("reply", [says, calls])
    def test_an_answer_that_breaks_off_is_no_answer(self, reply: object, end: str) -> None:
        assert refused(reply("x = 1", end=end)).retry_after_s == 1.0  # type: ignore[operator]

    def test_what_is_no_json_is_no_answer(self) -> None:
        assert "JSON" in str(refused(Reply(raw=b"{broken")))

    def test_an_error_within_the_stream_is_told(self) -> None:
        error = refused(Reply(raw=b'{"error": {"message": "overloaded", "type": "server_error"}}'))
        assert "overloaded" in str(error)

    @pytest.mark.parametrize(
        "reply", [says("half of", finish="length"), Reply(calls("x").deltas[:-1], finish="length")]
    )
    def test_an_answer_cut_at_its_length_says_so(self, reply: Reply) -> None:
        error = refused(reply)
        assert "max_tokens" in str(error)
        assert error.retry_after_s is None

    def test_a_call_without_code_is_asked_for_again_at_once(self) -> None:
        about = {"name": "run_python", "arguments": '{"cod": 1}'}
        error = refused(Reply([{"tool_calls": [{"index": 0, "id": "c", "function": about}]}], finish="tool_calls"))
        assert error.retry_after_s == 0.0


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
        told = (Told("Add."), Said("First:", "1 + 1", "call_7"), Returned("call_7", "2"), Told("Go on."))
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
            again = reopened(Place(state.session.namespace, state.session), run.id)
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
            "from agent_kernel.agents.agent import reopened\n"
            "from agent_kernel.agents.place import Place\n"
            "state = Versioned(open(sys.argv[1]))\n"
            "run = reopened(Place(state.session.namespace, state.session), sys.argv[2])\n"
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
            environment = {"PYTHONPATH": str(Path(__file__).parents[2]), **_environment()}
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=60)
            assert done.stdout.split() == ["2", "[1,", "2]"], done.stderr
            assert [message["role"] for message in server.requests[1]["messages"]] == [
                "system", "user", "assistant", "tool", "user",
            ]  # fmt: skip
            assert server.requests[1]["messages"][-1]["content"].endswith("the second")


def _environment() -> dict[str, str]:
    import os

    return dict(os.environ)


BLOCKED = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {package!r}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)
sys.meta_path.insert(0, Blocker())
from agent_kernel.agents.models.naming import model_named
from agent_kernel.errors import MissingExtraError
try:
    model_named({name!r})
except MissingExtraError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("package", "name", "extra"),
    [("pydantic_ai", "openai:gpt-5", "agents"), ("openai", "openai:gpt-5", "openai"), ("anthropic", "anthropic:x", "anthropic"),
     ("google", "google:gemini", "google"), ("groq", "groq:x", "groq"), ("mistralai", "mistral:x", "mistral")],
)  # fmt: skip
def test_a_package_that_is_missing_is_named_with_its_extra(package: str, name: str, extra: str) -> None:
    code = BLOCKED.format(package=package, name=name)
    environment = {"PYTHONPATH": str(Path(__file__).parents[2]), **_environment()}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert f'pip install "agent-kernel[{extra}]" brings it' in done.stdout


def test_the_error_of_a_missing_package_is_an_import_error() -> None:
    assert issubclass(MissingExtraError, ImportError)
