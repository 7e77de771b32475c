"""Sessions of AgentScope 1: what is saved comes back, and a checkout takes it along.

AgentScope 1 and 2 cannot be installed together, and `make test-integrations` has 2. A session uses nothing of the package but two
methods of the objects that it is handed, so its contract is tested here with objects of that shape, in any environment. In one with
`agentscope==1.0.21` the tests of that release run too, if its repository is there. That release needs packages that it does not ask for:

    pip install agentscope==1.0.21 "mcp<2" greenlet tqdm hypothesis pytest-timeout --editable .
    git clone --branch v1.0.21 https://github.com/agentscope-ai/agentscope SOURCES/agentscope-1.0.21
    AGENT_KERNEL_SDISTS=SOURCES python -m pytest tests/integrations/test_agentscope_v1.py
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import agent_kernel as ak
from agent_kernel.integrations.agentscope_v1 import AgentKernelSession
from agent_kernel.records.schema import Plane
from tests.integrations.foreign import SDISTS, run_suite

SOURCE = "agentscope-1.0.21"
TABLESTORE = "tests/session_test.py::TablestoreSessionTest::"
LEFT_OUT = {
    f"{TABLESTORE}test_close": "it looks at the attributes of Tablestore's session",
    f"{TABLESTORE}test_async_context_manager": "it looks at the attributes of Tablestore's session",
    f"{TABLESTORE}test_load_before_save_session_not_exist": "it reads AgentScope's own log; ours is our logger's",
    f"{TABLESTORE}test_lifecycle_load_save_load": "it reads AgentScope's own log; ours is our logger's",
}
PLANES = pytest.mark.parametrize("plane", ["branch", "store"])


class Module:
    """As `agentscope.module.StateModule`: all that its attributes are."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    def state_dict(self) -> dict[str, Any]:
        return self.__dict__

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        assert not strict or self.__dict__.keys() <= state_dict.keys()
        self.__dict__.update(state_dict)


def save(session: AgentKernelSession, name: str, user: str = "", **modules: Module) -> None:
    asyncio.run(session.save_session_state(name, user, **modules))


def load(session: AgentKernelSession, name: str, user: str = "", *, may_be_new: bool = True, **modules: Module) -> None:
    asyncio.run(session.load_session_state(name, user, may_be_new, **modules))


def is_version_1() -> bool:
    try:
        return metadata.version("agentscope").startswith("1.")
    except metadata.PackageNotFoundError:
        return False


@pytest.mark.skipif(
    not (is_version_1() and (SDISTS / SOURCE).is_dir()),
    reason="agentscope 1.0.21 and its repository are not both there: this module's text says how",
)
def test_the_tests_of_its_sessions_pass_with_ours() -> None:
    passed, failed = run_suite(SOURCE, ["tests/session_test.py"], plugin="replace_agentscope_v1", left_out=LEFT_OUT)
    assert failed == []
    assert passed == 5


@PLANES
def test_modules_come_back_by_their_names(repo: ak.Repository, plane: Plane) -> None:
    session = AgentKernelSession(repo, plane=plane)
    agent, memory = Module(name="Friday", turns=1), Module(content=[["Hi!", []]])
    save(session, "talk", "ada", agent=agent, memory=memory)
    agent.name, agent.turns, memory.content = "Monday", 9, []
    unknown = Module(kept=True)
    load(session, "talk", "ada", agent=agent, unknown=unknown)
    assert (agent.name, agent.turns, memory.content) == ("Friday", 1, [])
    load(session, "talk", "ada", memory=memory)
    assert (memory.content, unknown.kept) == ([["Hi!", []]], True)


@PLANES
def test_users_and_sessions_have_nothing_in_common(repo: ak.Repository, plane: Plane) -> None:
    session = AgentKernelSession(repo, plane=plane)
    places = [("talk", "ada"), ("talk", "bob"), ("other", "ada"), ("talk", ""), ("ada/talk", "")]
    places += [("x" * 500, "ada"), ("x" * 501, "ada"), ("x" * 500, "y" * 500), ("null \0", "half \ud800")]
    for number, (name, user) in enumerate(places):
        save(session, name, user, agent=Module(number=number))
    for number, (name, user) in enumerate(places):
        agent = Module(number=None)
        load(session, name, user, agent=agent)
        assert agent.number == number


@PLANES
def test_the_next_save_takes_the_place_of_the_one_before(repo: ak.Repository, plane: Plane) -> None:
    session = AgentKernelSession(repo, plane=plane)
    save(session, "talk", agent=Module(turns=1), memory=Module(content=["a"]))
    save(session, "talk", agent=Module(turns=2))
    agent, memory = Module(turns=0), Module(content=[])
    load(session, "talk", agent=agent, memory=memory)
    assert (agent.turns, memory.content) == (2, [])


def test_a_session_that_nobody_saved_changes_nothing_or_raises(repo: ak.Repository) -> None:
    session, agent = AgentKernelSession(repo), Module(name="Friday")
    load(session, "new", agent=agent)
    with pytest.raises(ValueError, match="'new' of user 'ada'"):
        load(session, "new", "ada", may_be_new=False, agent=agent)
    assert agent.name == "Friday"


def test_what_json_cannot_hold_is_refused_and_nothing_is_stored(repo: ak.Repository) -> None:
    session, agent = AgentKernelSession(repo), Module(turns=1)
    save(session, "talk", agent=agent)
    with pytest.raises(TypeError):
        save(session, "talk", agent=Module(turns=2), memory=Module(content={1, 2}))
    load(session, "talk", agent=agent)
    assert agent.turns == 1


def test_what_was_saved_and_loaded_are_copies(repo: ak.Repository) -> None:
    session, agent = AgentKernelSession(repo), Module(turns=["first"])
    save(session, "talk", agent=agent)
    agent.turns.append("second")
    load(session, "talk", agent=agent)
    assert agent.turns == ["first"]
    agent.turns.append("third")
    load(session, "talk", agent=agent)
    assert agent.turns == ["first"]


def test_a_session_is_a_state_of_ours(repo: ak.Repository) -> None:
    session, agent = AgentKernelSession(repo), Module(name="Friday")
    save(session, "talk", "ada", agent=agent)
    state = repo.state("ada", "talk")
    assert state.get("agent") == {"name": "Friday"}
    state.update("agent", {"name": "Monday"})
    load(session, "talk", "ada", agent=agent)
    assert agent.name == "Monday"


def test_a_checkout_rewinds_the_session_and_the_variables_as_one(repo: ak.Repository) -> None:
    agent, session = Module(turns=[]), AgentKernelSession(repo)
    with ak.Versioned(repo) as variables:
        for turn in ("first", "second"):
            agent.turns.append(turn)
            save(session, "talk", agent=agent)
            variables["last"] = turn
            variables.commit(turn)
        variables.undo()
        load(session, "talk", agent=agent)
        assert (variables["last"], agent.turns) == ("first", ["first"])


def test_another_process_goes_on_with_a_session(repo: ak.Repository, tmp_path: Path) -> None:
    async def go_on() -> Module:
        async with AgentKernelSession(tmp_path / "store") as session:
            agent = Module(name="")
            await session.load_session_state("talk", agent=agent)
        return agent

    save(AgentKernelSession(repo), "talk", agent=Module(name="Friday"))
    assert asyncio.run(go_on()).name == "Friday"
    with ak.open(tmp_path / "store") as other:
        assert other.state("", "talk").get("agent") == {"name": "Friday"}


def test_a_session_with_a_time_to_live_is_gone_after_it(repo: ak.Repository, wait: Callable[[float], None]) -> None:
    session, agent = AgentKernelSession(repo, plane="store", key_ttl=60), Module(name="Friday")
    save(session, "talk", agent=agent)
    load(session, "talk", may_be_new=False, agent=agent)
    wait(61)
    with pytest.raises(ValueError, match="nothing was saved"):
        load(session, "talk", may_be_new=False, agent=agent)
