"""Models of providers: any address that speaks as OpenAI does, with all that can go wrong on the way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from agent_kernel.agents import Agent, Limits
from agent_kernel.agents.models import AssistantMessage, Request, ToolResult, UserMessage, model_named
from agent_kernel.errors import ModelError, TaskFailedError, UnknownPriceError
from tests.agents.asking import QUESTION, answered, asked, refused, text_of
from tests.agents.openai_server import OpenAIServer, Reply, calls, refuses, says

pytestmark = pytest.mark.usefixtures("servers_on_the_loopback_are_asked")


@pytest.fixture(autouse=True, scope="module")
def packages() -> None:
    """Load them for these tests: where they are not installed, each is skipped."""
    pytest.importorskip("pydantic_ai.models.openai")


class TestAnswers:
    def test_only_the_tool_that_was_offered_runs(self) -> None:
        about = {"name": "delete_everything", "arguments": '{"code": "x = 1"}'}
        reply = Reply([{"tool_calls": [{"index": 0, "id": "c", "function": about}]}], finish="tool_calls")
        _, answer = answered(reply)
        assert answer.code is None
        assert "no tool 'delete_everything'" in answer.refused
        assert "call run_python" in answer.refused

    @pytest.mark.parametrize(
        ("first", "said"),
        [
            ("cut", "was cut off"),
            ("half", "was cut off"),
            ("words", "was cut off"),
            ("filtered", "broke your answer off"),
            ("other", "There is no tool 'bash', so none of your answer ran"),
        ],
    )
    def test_what_must_not_run_is_told_and_the_run_goes_on(self, first: str, said: str) -> None:
        cut = calls("x = 'half'", finish="length")
        about = {"name": "bash", "arguments": '{"code": "x = \'half\'"}'}
        other = Reply([{"tool_calls": [{"index": 0, "id": "c", "function": about}]}], finish="tool_calls")
        half = Reply(calls("x = 'half'", size=2).deltas[:-3], finish="length")
        filtered = calls("x = 'half'", finish="content_filter")
        words = says("I set it:\n```python\nx = 'half'\n```\nand then", finish="length")
        state: dict[str, object] = {}
        replies = {"cut": cut, "half": half, "words": words, "filtered": filtered, "other": other}
        with OpenAIServer(replies[first], calls("task.success(7)")).running() as server:
            assert Agent(model=f"openai:local@{server.address}", state=state)("Work") == 7
            assert said in str(server.requests[1]["messages"])
        assert "x" not in state

    def test_an_answer_with_one_call_that_is_not_ours_runs_as_a_whole_or_not_at_all(self) -> None:
        both = calls("x = 1", "y = 2")
        deltas = [*both.deltas]
        for delta in deltas:
            for call in delta.get("tool_calls", ()):
                if call["index"] == 1 and "name" in call["function"]:
                    call["function"]["name"] = "shell"
        _, answer = answered(Reply(deltas, finish="tool_calls"))
        assert (answer.code, answer.call) == (None, "")
        assert answer.refused

    @pytest.mark.filterwarnings("ignore:Failed to extract usage")  # pydantic-ai's, where it says so
    def test_a_server_that_says_less_than_nothing_is_estimated(self) -> None:
        _, answer = answered(calls("x = 1", usage=(-500, 20)))
        assert answer.usage.input_tokens > 0
        assert answer.usage.output_tokens > 0

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

    def test_a_model_at_a_local_address_has_no_price(self) -> None:
        _, answer = answered(Reply([{"content": "Hi."}], usage=(1_000, 100), model="gpt-4o"), name="gpt-4o")
        assert (answer.usage.tokens, answer.usage.cost) == (1_100, None)
        assert not model_named("openai:gpt-4o@http://192.168.1.7:8000/v1").has_price()  # type: ignore[attr-defined]  # a provider's
        assert model_named("openai:gpt-4o@https://gateway.example.com/v1").has_price()  # type: ignore[attr-defined]

    def test_tokens_are_counted_and_a_known_model_has_a_price(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("agent_kernel.agents.models.provided.is_local", lambda _: False)
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

    def test_whether_a_price_is_known_is_known_before_anything_is_asked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("agent_kernel.agents.models.provided.is_local", lambda _: False)
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
        told = (
            UserMessage("Add."),
            AssistantMessage("First:", "1 + 1", "call_7"),
            ToolResult("call_7", "2"),
            UserMessage("Go on."),
        )
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
        body = self.sent(Request("Work.", (UserMessage("Do it."),), settings={"temperature": 0.25, "max_tokens": 99}))
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
    def test_an_answer_cut_at_its_length_is_told_once_and_then_ends_the_run(self, reply: Reply) -> None:
        _, answer = answered(reply)
        assert (answer.code, answer.is_cut) == (None, True)
        with OpenAIServer(reply, reply, calls("task.success(7)")).running() as server:
            run = Agent(model=f"openai:local@{server.address}").start("Work")
            for _ in run:
                pass
        assert (run.status, len(server.requests)) == ("failed", 2)
        assert "max_tokens" in getattr(run.events[-1], "reason", "")
        assert run.usage.requests == 2

    def test_a_call_without_code_is_asked_for_again_at_once(self) -> None:
        about = {"name": "run_python", "arguments": '{"cod": 1}'}
        error = refused(Reply([{"tool_calls": [{"index": 0, "id": "c", "function": about}]}], finish="tool_calls"))
        assert error.retry_after_s == 0.0
