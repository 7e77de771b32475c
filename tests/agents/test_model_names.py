"""A name says which provider is asked, at which address; what is missing for it is named."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import agent_kernel as ak
from agent_kernel.agents.agent import Agent
from agent_kernel.agents.models import model_named
from agent_kernel.agents.run import Run
from agent_kernel.errors import MissingExtraError, ModelError
from tests.agents.asking import asked
from tests.agents.openai_server import OpenAIServer, says

pytestmark = pytest.mark.usefixtures("servers_on_the_loopback_are_asked")


@pytest.fixture(autouse=True, scope="module")
def packages() -> None:
    """Load them for these tests: where they are not installed, each is skipped."""
    pytest.importorskip("pydantic_ai.models.openai")


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
        assert isinstance(model.model, OpenAIResponsesModel)  # type: ignore[attr-defined]

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
            ("openai:x@notaurl", "'notaurl' is not an address: an address begins with http:// or https://"),
            ("openai:x@http://", "'http://' is not an address: it has no host"),
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

    def test_an_object_of_pydantic_ai_is_a_model(self) -> None:
        from pydantic_ai.models.test import TestModel

        model = model_named(TestModel(custom_output_text="Hi.", call_tools=[]))
        assert asked(model)[1].text == "Hi."

    def test_what_is_no_model_is_told_apart(self) -> None:
        with pytest.raises(TypeError, match="not int"):
            model_named(42)


BLOCKED = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {package!r}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)
sys.meta_path.insert(0, Blocker())
from agent_kernel.agents.models import model_named
from agent_kernel.errors import MissingExtraError, ModelError
try:
    model_named({name!r})
except (MissingExtraError, ModelError) as error:
    print(error)
"""


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("package", "name", "extra"),
    [("pydantic_ai", "openai:gpt-5", "openai"), ("pydantic_ai", "openai-responses:gpt-5", "openai"), ("pydantic_ai", "google-cloud:x", "google"),
     ("pydantic_ai", "ollama:qwen3", "openai"), ("pydantic_ai", "anthropic:x", "anthropic"), ("pydantic_ai", "nobody:x", "agents"),
     ("openai", "openai:gpt-5", "openai"), ("anthropic", "anthropic:x", "anthropic"),
     ("google", "google:gemini", "google"), ("groq", "groq:x", "groq"), ("mistralai", "mistral:x", "mistral")],
)  # fmt: skip
def test_a_package_that_is_missing_is_named_with_its_extra(package: str, name: str, extra: str) -> None:
    assert f'pip install "agent-kernel[{extra}]" brings it' in said_without(package, name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gpt-5", "a model is named PROVIDER:NAME; did you mean openai:gpt-5?"),
        ("what", "the providers are anthropic, "),
    ],
)
def test_a_name_without_a_provider_is_told_of_before_anything_is_installed(name: str, said: str) -> None:
    whole = said_without("pydantic_ai", name)
    assert said in whole
    assert "pip install" not in whole


def said_without(package: str, name: str) -> str:
    """What is said of a model where a package is not installed."""
    code = BLOCKED.format(package=package, name=name)
    environment = {"PYTHONPATH": str(Path(__file__).parents[2]), **os.environ}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return done.stdout


def test_the_error_of_a_missing_package_is_an_import_error() -> None:
    assert issubclass(MissingExtraError, ImportError)


def of_a_provider(key: str = "sk-own", port: int = 9) -> Any:
    """A model object of OpenAI's kind that asks a server of its own."""
    openai = pytest.importorskip("pydantic_ai.models.openai")
    providers = pytest.importorskip("pydantic_ai.providers.openai")
    provider = providers.OpenAIProvider(base_url=f"http://127.0.0.1:{port}/v1", api_key=key)
    return openai.OpenAIChatModel("gpt-x", provider=provider)


def server_of(run: Run[Any]) -> object:
    """The model object that a run asks."""
    course: Any = run._run_executor  # pyright: ignore[reportPrivateUsage]
    return course.setup.model.model


def test_a_run_that_began_with_a_model_object_goes_on_with_that_object_alone() -> None:
    mine, other = of_a_provider(), of_a_provider("sk-other")
    with ak.Versioned() as state:
        agent = Agent("analyst", state=state)
        run = agent.start("Do it", model=mine)
        _ = Agent("other", model=other, state=state).start("Do it")  # of the same name, with another key
        assert server_of(agent.reopen(run.id)) is mine


def test_a_run_goes_on_with_its_agents_object_of_this_name_and_server() -> None:
    with ak.Versioned() as state:
        run = Agent("analyst", model=of_a_provider(), state=state).start("Do it").id
        gc.collect()
        again = of_a_provider()
        assert server_of(Agent("analyst", model=again, state=state).reopen(run)) is again
        other = of_a_provider(port=8)
        with pytest.raises(ModelError, match="model object that is gone"):
            _ = Agent("analyst", model=other, state=state).reopen(run)


def test_an_agent_that_was_given_another_object_does_not_take_its_run_there() -> None:
    with ak.Versioned() as state:
        mine, other = of_a_provider(), of_a_provider("sk-other", port=8)
        agent = Agent("analyst", model=mine, state=state)
        run = agent.start("Do it").id
        agent.model = other
        assert server_of(agent.reopen(run)) is mine


def test_a_run_whose_model_object_is_gone_asks_no_other_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    with ak.Versioned() as state:
        agent = Agent("analyst", state=state)
        run = agent.start("Do it", model=of_a_provider()).id
        gc.collect()
        with pytest.raises(ModelError, match="model object that is gone"):
            _ = agent.reopen(run)
        with pytest.raises(ModelError, match="model object that is gone"):
            _ = Agent("analyst", model="openai:gpt-x", state=state).reopen(run)
        assert agent.reopen(run, model="openai:gpt-x").model == "openai:gpt-x"  # somebody says so


def test_a_name_means_its_provider_whatever_object_was_used_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    with ak.Versioned() as state:
        mine = of_a_provider()
        _ = Agent("analyst", model=mine, state=state).start("Do it")
        run = Agent("other", model="openai:gpt-x", state=state).start("Do it")
        assert server_of(run) is not mine


def test_a_run_of_a_variables_model_is_found_by_the_variable() -> None:
    with ak.Versioned() as state:
        state.namespace["mine"] = of_a_provider()
        run = Agent("analyst", model="mine", state=state).start("Do it")
        assert run.model == "mine"
