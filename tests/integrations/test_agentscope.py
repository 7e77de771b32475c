"""AgentScope's storage on our records: the contract of `StorageBase`, and a checkout that takes conversations along.

Its source distribution has no tests of storages. Where its repository is, they run here too, with our storage in the place of theirs:

    git clone https://github.com/agentscope-ai/agentscope .venv-integrations/sdists/agentscope
    make test-integrations

The newest tests that were run are those of 22 August 2026, after v2.0.6.
"""

from __future__ import annotations

import asyncio
import base64
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import agent_kernel as ak
from tests.integrations.foreign import SDISTS, needs, run_suite

needs("agentscope.app.storage")

from agentscope.app.storage import (
    AgentData,
    AgentRecord,
    ChannelBinding,
    ChannelOrigin,
    ChannelRecord,
    ChatModelConfig,
    EmbeddingModelConfig,
    KnowledgeBaseData,
    KnowledgeBaseRecord,
    KnowledgeDocumentData,
    KnowledgeDocumentRecord,
    MCPRecord,
    RoutingConfig,
    ScheduleData,
    ScheduleOrigin,
    ScheduleRecord,
    SessionConfig,
    SessionSettings,
    SkillRecord,
    SOPAgentRef,
    SOPData,
    SOPRecord,
    SOPRunRecord,
    SOPStepDataV1,
    StorageBase,
    TeamData,
    TeamMember,
    TeamRecord,
)
from agentscope.credential import OpenAICredential
from agentscope.mcp import HttpMCPConfig, MCPClient
from agentscope.message import AssistantMsg, TextBlock, UserMsg
from agentscope.sop import SOPPhase, SOPRunState, SOPStepRunState
from agentscope.state import AgentState

from agent_kernel.integrations import agentscope as module
from agent_kernel.integrations.agentscope import AgentKernelStorage
from agent_kernel.records import Records

SOURCE = "agentscope"
REDIS = "tests/storage_redis_test.py::TestMessage::test_"
SQL = "tests/storage_sql_test.py::AsyncSQLAlchemyStorage"
LEFT_OUT = {
    f"{REDIS}upsert_refreshes_message_list_ttl": "it asks Redis when a key expires",
    f"{REDIS}replace_refreshes_message_list_ttl": "it asks Redis when a key expires",
    f"{REDIS}find_message_index_across_chunks": "it searches a list of Redis in chunks",
    f"{SQL}Test::test_upsert_credential_is_owner_scoped": "an id is one of all users in SQL; here, as in Redis, a user's own",
    f"{SQL}AutoMigrateTest::test_auto_migrate_creates_schema": "it migrates SQL's tables",
}
MODEL = ChatModelConfig(type="openai_credential", credential_id="key", model="gpt-4o", parameters={})
CONFIG = SessionConfig(workspace_id="desk", chat_model_config=MODEL)


class Kind(NamedTuple):
    """How a kind of records is made, and what the methods for it end with."""

    one: str
    all: str
    make: Callable[[str], Any]
    argument: Callable[[Any], Any] = lambda record: record


def agent(user: str, **more: Any) -> AgentRecord:
    return AgentRecord(user_id=user, data=AgentData(name="Friday"), **more)


def mcp(user: str, name: str = "wiki", **more: Any) -> MCPRecord:
    client = MCPClient(name=name, is_stateful=False, mcp_config=HttpMCPConfig(url="https://localhost/mcp"))
    return MCPRecord(user_id=user, client=client, **more)


def schedule(user: str, agent_id: str = "a") -> ScheduleRecord:
    data = ScheduleData(name="daily", cron_expression="0 9 * * *", chat_model_config=MODEL)
    return ScheduleRecord(user_id=user, agent_id=agent_id, data=data)


def channel(user: str) -> ChannelRecord:
    return ChannelRecord(
        channel_type="discord",
        user_id=user,
        routing=RoutingConfig(bindings=[ChannelBinding(agent_id="a")]),
        session=SessionSettings(chat_model_config=MODEL.model_dump()),
    )


def team(user: str, leader: str = "s", members: list[TeamMember] | None = None) -> TeamRecord:
    return TeamRecord(user_id=user, session_id=leader, data=TeamData(name="team", members=members or []))


def base(user: str) -> KnowledgeBaseRecord:
    embedding = EmbeddingModelConfig(type="openai_credential", credential_id="key", model="small", dimensions=8)
    data = KnowledgeBaseData(name="papers", embedding_model_config=embedding, collection_name="papers")
    return KnowledgeBaseRecord(user_id=user, data=data)


def document(user: str, base_id: str, name: str = "a.txt", **more: Any) -> KnowledgeDocumentRecord:
    data = KnowledgeDocumentData(filename=name, size=1, blob_uri=f"local://{name}")
    return KnowledgeDocumentRecord(user_id=user, knowledge_base_id=base_id, data=data, **more)


def sop(user: str) -> SOPRecord:
    step = SOPStepDataV1(subject="Write", description="A page", executor=SOPAgentRef(agent_id="a", session_key="main"))
    return SOPRecord(user_id=user, data=SOPData(name="report", steps=[step]))


def sop_run(user: str, sop_id: str = "p", **more: Any) -> SOPRunRecord:
    return SOPRunRecord(user_id=user, sop_id=sop_id, definition=sop(user).data, **more)


KINDS = [
    Kind("agent", "agents", agent),
    Kind("mcp", "mcps", mcp),
    Kind("skill", "skills", lambda user: SkillRecord(user_id=user, name="search")),
    Kind("schedule", "schedules", schedule),
    Kind("sop", "sops", sop),
    Kind("sop_run", "sop_runs", sop_run),
    Kind("team", "teams", team),
    Kind("knowledge_base", "knowledge_bases", base),
]


@pytest.fixture(params=["branch", "store"])
def storage(repo: ak.Repository, request: pytest.FixtureRequest) -> AgentKernelStorage:
    return AgentKernelStorage(repo, plane=request.param)


def do(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(coroutine)


def begin(storage: AgentKernelStorage, agent_id: str = "a", user: str = "ada", **more: Any) -> Any:
    return do(storage.upsert_session(user, agent_id, CONFIG, **more))


def say(storage: AgentKernelStorage, *texts: str, session: str = "s", user: str = "ada") -> list[Any]:
    messages = [UserMsg(name=user, content=text) for text in texts]
    for message in messages:
        do(storage.upsert_message(user, session, message))
    return messages


def said(storage: AgentKernelStorage, session: str = "s", user: str = "ada", **page: Any) -> list[str | None]:
    return [message.get_text_content() for message in do(storage.list_messages(user, session, **page))[0]]


@pytest.mark.skipif(
    not (SDISTS / SOURCE).is_dir(), reason="AgentScope's repository is not there: this module's text says how"
)
@pytest.mark.parametrize(("file", "expected"), [("redis_test", 75), ("redis_knowledge_base_test", 3), ("sql_test", 22)])
def test_the_tests_of_its_storages_pass_with_ours(file: str, expected: int) -> None:
    passed, failed = run_suite(SOURCE, [f"tests/storage_{file}.py"], plugin="replace_agentscope", left_out=LEFT_OUT)
    assert failed == []
    assert passed >= expected


def test_no_method_of_the_contract_is_missing() -> None:
    theirs = {name for name, value in vars(StorageBase).items() if callable(value) and not name.startswith("_")}
    assert len(theirs) == 69
    assert {name for name in theirs if getattr(AgentKernelStorage, name) is getattr(StorageBase, name)} == set()


# -- what holds for every kind


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.one)
def test_a_record_is_stored_found_changed_and_deleted_by_its_user(storage: AgentKernelStorage, kind: Kind) -> None:
    upsert, get, delete = (getattr(storage, f"{verb}_{kind.one}") for verb in ("upsert", "get", "delete"))
    all_of = getattr(storage, f"list_{kind.all}")
    record = kind.make("ada")
    returned = do(upsert("ada", record))
    assert returned == record.id or returned.id == record.id
    first = do(get("ada", record.id))
    assert first == record.model_copy(update={"updated_at": first.updated_at})
    assert do(all_of("ada")) == [first]
    assert (do(get("bob", record.id)), do(all_of("bob")), do(delete("bob", record.id))) == (None, [], False)
    do(upsert("ada", first.model_copy(update={"created_at": datetime.now()})))
    second = do(get("ada", record.id))
    assert second.created_at == first.created_at
    assert second.updated_at > first.updated_at
    assert (do(delete("ada", record.id)), do(delete("ada", record.id))) == (True, False)
    assert (do(get("ada", record.id)), do(all_of("ada"))) == (None, [])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.one)
def test_users_with_equal_ids_have_records_of_their_own(storage: AgentKernelStorage, kind: Kind) -> None:
    upsert, get = getattr(storage, f"upsert_{kind.one}"), getattr(storage, f"get_{kind.one}")
    for user in ("ada", "bob", "", "ada/x", "%%"):
        do(upsert(user, kind.make(user).model_copy(update={"id": "same"})))
    for user in ("ada", "bob", "", "ada/x", "%%"):
        assert do(get(user, "same")).user_id == user
        assert len(do(getattr(storage, f"list_{kind.all}")(user))) == 1


@pytest.mark.parametrize("name", ["x" * 500, "half \ud800", "null \0", "a/b#c%d", "é" * 60, "*[?"])
def test_any_text_is_a_name(storage: AgentKernelStorage, name: str) -> None:
    if "\ud800" not in name:  # half a character is in no record
        begin(storage, user=name, session_id=name)
        assert do(storage.get_session(name, "a", name)).id == name
        assert [one.id for one in do(storage.list_sessions(name, "a"))] == [name]
    message = UserMsg(name="ada", content="hello")
    do(storage.upsert_message(name, name, message))
    assert said(storage, name, name) == ["hello"]
    assert do(storage.get_message(name, name, message.id)) == message
    assert said(storage, name + "x", name) == said(storage, name, name + "x") == []
    if "\ud800" not in name:
        assert do(storage.delete_session(name, "a", name))
        assert said(storage, name, name) == []


def test_what_the_caller_changes_later_is_not_stored(storage: AgentKernelStorage) -> None:
    record, state = agent("ada"), AgentState(summary="first")
    do(storage.upsert_agent("ada", record))
    session = begin(storage, state=state)
    record.data.name = state.summary = "later"
    assert do(storage.get_agent("ada", record.id)).data.name == "Friday"
    assert do(storage.get_session("ada", "a", session.id)).state.summary == "first"


# -- credentials


def test_credentials_keep_their_secrets_and_get_names(storage: AgentKernelStorage) -> None:
    ids = [do(storage.upsert_credential("ada", OpenAICredential(api_key=f"sk-{number}"))) for number in range(3)]
    found = do(storage.list_credentials("ada"))
    assert [one.id for one in found] == ids
    assert [one.data["name"] for one in found] == ["Openai", "Openai (2)", "Openai (3)"]
    assert [one.data["api_key"] for one in found] == ["sk-0", "sk-1", "sk-2"]
    do(storage.upsert_credential("ada", OpenAICredential(id=ids[0], api_key="sk-new", name="work")))
    assert do(storage.get_credential("ada", ids[0])).data["api_key"] == "sk-new"
    assert do(storage.get_credential("ada", ids[0])).created_at == found[0].created_at
    do(storage.upsert_credential("bob", OpenAICredential(id=ids[0], api_key="sk-bob")))
    assert do(storage.get_credential("ada", ids[0])).data["api_key"] == "sk-new"
    assert (do(storage.delete_credential("ada", ids[0])), do(storage.delete_credential("ada", ids[0]))) == (True, False)


def test_secrets_are_in_no_commit_and_deleted_ones_nowhere(repo: ak.Repository, tmp_path: Path) -> None:
    storage = AgentKernelStorage(repo)
    with ak.Versioned(repo) as variables:
        id = do(storage.upsert_credential("ada", OpenAICredential(api_key="sk-very-secret")))
        begin(storage)
        variables.commit("begin")
        variables.undo()
        assert do(storage.get_credential("ada", id)) is not None
    do(storage.delete_credential("ada", id))
    assert list(storage._credentials.history(f"ada/{id}")) == []


def test_a_key_encrypts_what_holds_secrets(repo: ak.Repository) -> None:
    pytest.importorskip("cryptography")
    storage = AgentKernelStorage(repo, secret="open sesame")
    id = do(storage.upsert_credential("ada", OpenAICredential(api_key="sk-very-secret")))
    assert do(storage.get_credential("ada", id)).data["api_key"] == "sk-very-secret"
    with pytest.raises(ak.SealedRecordError):
        do(AgentKernelStorage(repo).list_credentials("ada"))


# -- names


def test_a_name_belongs_to_one_record_of_a_user(storage: AgentKernelStorage) -> None:
    record = mcp("ada")
    do(storage.upsert_mcp("ada", record))
    do(storage.upsert_mcp("ada", record))
    do(storage.upsert_mcp("bob", mcp("bob")))
    do(storage.upsert_skill("ada", SkillRecord(user_id="ada", name="wiki")))
    with pytest.raises(ValueError, match="'wiki'"):
        do(storage.upsert_mcp("ada", mcp("ada")))
    with pytest.raises(ValueError, match="'wiki'"):
        do(storage.upsert_skill("ada", SkillRecord(user_id="ada", name="wiki")))
    do(storage.upsert_mcp("ada", mcp("ada", "other", id=record.id)))
    assert do(storage.get_mcp_by_name("ada", "wiki")) is None
    assert do(storage.get_mcp_by_name("ada", "other")).id == record.id
    do(storage.upsert_mcp("ada", mcp("ada")))
    assert len(do(storage.list_mcps("ada"))) == 2
    assert do(storage.get_skill_by_name("ada", "wiki")).name == "wiki"


def test_channels_are_found_without_a_user_and_a_bot_has_one(storage: AgentKernelStorage) -> None:
    mine, other = channel("ada"), channel("bob")
    assert do(storage.upsert_channel(mine, "bot-1")) == mine.id
    do(storage.upsert_channel(other, "bot-2"))
    with pytest.raises(ValueError, match="'bot-1'"):
        do(storage.upsert_channel(other, "bot-1"))
    assert do(storage.get_channel(mine.id)).user_id == "ada"
    assert [one.id for one in do(storage.list_channels("ada"))] == [mine.id]
    assert [one.id for one in do(storage.list_all_channels())] == [mine.id, other.id]
    assert do(storage.get_channel_id_by_platform_bot_id("bot-2")) == other.id
    do(storage.upsert_channel(mine, "bot-3"))
    assert do(storage.get_channel_id_by_platform_bot_id("bot-1")) is None
    assert (do(storage.delete_channel(mine.id, "bot-3")), do(storage.delete_channel(mine.id, "bot-3"))) == (True, False)
    assert do(storage.get_channel_id_by_platform_bot_id("bot-3")) is None


def test_agents_that_a_team_made_are_not_listed(storage: AgentKernelStorage) -> None:
    mine, made = agent("ada"), agent("ada", source="team")
    for one in (mine, made):
        do(storage.upsert_agent("ada", one))
    assert [one.id for one in do(storage.list_agents("ada"))] == [mine.id]
    assert do(storage.get_agent("ada", made.id)).source == "team"


# -- sessions


def test_a_session_is_begun_once_and_then_changed(storage: AgentKernelStorage) -> None:
    session = begin(
        storage, session_id="s", origin=ScheduleOrigin(schedule_id="daily"), state=AgentState(summary="one")
    )
    other = CONFIG.model_copy(update={"name": "renamed"})
    changed = do(storage.upsert_session("ada", "a", other, session_id="s"))
    assert (session.id, changed.id, changed.config.name) == ("s", "s", "renamed")
    assert (changed.created_at, changed.origin) == (session.created_at, session.origin)
    assert changed.state.summary == "one"
    do(storage.update_session_state("ada", "a", "s", AgentState(summary="two")))
    assert do(storage.get_session("ada", "", "s")).state.summary == "two"
    do(storage.set_session_team_id("ada", "s", "team"))
    do(storage.set_session_team_id("ada", "missing", "team"))
    assert do(storage.get_session("ada", "a", "s")).team_id == "team"
    with pytest.raises(KeyError, match="missing"):
        do(storage.update_session_state("ada", "a", "missing", AgentState()))
    assert (do(storage.delete_session("ada", "a", "s")), do(storage.delete_session("ada", "a", "s"))) == (True, False)


def test_sessions_are_listed_by_what_they_are_for_the_newest_first(storage: AgentKernelStorage) -> None:
    origins = [ScheduleOrigin(schedule_id="daily"), ChannelOrigin(channel_id="c", chat_id="1"), None]
    ids = [begin(storage, origin=origin).id for origin in origins * 2]
    begin(storage, agent_id="b")
    assert [one.id for one in do(storage.list_sessions("ada", "a"))] == ids[::-1]
    assert [one.id for one in do(storage.list_sessions_by_schedule("ada", "daily"))] == [ids[3], ids[0]]
    assert [one.id for one in do(storage.list_sessions_by_channel("ada", "c"))] == [ids[4], ids[1]]
    assert do(storage.list_sessions("bob", "a")) == do(storage.list_sessions_by_schedule("ada", "c")) == []


def test_the_old_arguments_for_an_origin_warn_and_work(storage: AgentKernelStorage) -> None:
    with pytest.warns(DeprecationWarning, match="origin"):
        session = begin(storage, source="channel", source_channel_id="c", source_chat_id="1", source_chat_name="Home")
    assert session.origin == ChannelOrigin(channel_id="c", chat_id="1", chat_name="Home")


def test_a_state_comes_back_as_it_was(storage: AgentKernelStorage) -> None:
    state = AgentState(context=[UserMsg(name="ada", content="hello"), AssistantMsg(name="Friday", content="hi")])
    state.middle_context = {"budget": {"left": 0.5, "spent": [1, None, True]}}
    state.reply_context.structured_schema = {"type": "object"}
    session = begin(storage, state=state)
    found = do(storage.get_session("ada", "a", session.id)).state
    assert found.model_dump_json() == state.model_dump_json()
    assert do(storage.list_sessions("ada", "a"))[0].state == found


# -- messages


def test_messages_are_added_and_replaced_by_their_ids(storage: AgentKernelStorage) -> None:
    first, second = say(storage, "one", "two")
    do(storage.upsert_message("ada", "s", first.model_copy(update={"content": [TextBlock(text="changed")]})))
    assert said(storage) == ["changed", "two"]
    assert do(storage.get_message("ada", "s", second.id)) == second
    assert do(storage.get_message("ada", "s", "missing")) is None
    assert do(storage.get_message("bob", "s", second.id)) is None
    assert (do(storage.delete_message("ada", "s", first.id)), do(storage.delete_message("ada", "s", first.id))) == (
        True,
        False,
    )
    say(storage, "three")
    assert said(storage) == ["two", "three"]
    assert said(storage, "other") == said(storage, user="bob") == []


def test_infinity_and_nan_come_back(storage: AgentKernelStorage) -> None:
    (message,) = say(storage, "one")
    wanted = {"loss": float("inf"), "steps": [float("nan"), None], "done": None}
    do(storage.upsert_message("ada", "s", message.model_copy(update={"metadata": wanted})))
    found = do(storage.get_message("ada", "s", message.id))
    assert found is not None
    assert str(found.metadata) == str(wanted)


def test_messages_are_read_in_pages_from_the_newest(storage: AgentKernelStorage) -> None:
    ids = [message.id for message in say(storage, *map(str, range(7)))]
    assert do(storage.list_messages("ada", "new")) == ([], False)
    seen: list[str] = []
    before, is_more = None, True
    while is_more:
        page, is_more = do(storage.list_messages("ada", "s", limit=3, before=before))
        seen = [message.id for message in page] + seen
        before = page[0].id
    assert seen == ids
    assert said(storage, limit=3) == ["4", "5", "6"]
    assert said(storage, limit=2, before=ids[3]) == ["1", "2"]
    assert (
        do(storage.list_messages("ada", "s", before=ids[0]))
        == do(storage.list_messages("ada", "s", before="?"))
        == ([], False)
    )
    assert said(storage) == [*map(str, range(7))]
    with pytest.warns(DeprecationWarning, match="before"):
        assert len(do(storage.list_messages("ada", "s", offset=3))[0]) == 7


def test_a_page_reads_no_more_of_a_long_conversation_than_of_a_short_one(
    storage: AgentKernelStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = [0]
    load = Records.load
    ids = Records.ids

    def counted_load(*args: Any) -> Any:
        reads[0] += 1
        return load(*args)

    def counted_ids(*args: Any, **options: Any) -> Iterator[str]:
        for id in ids(*args, **options):
            reads[0] += 1
            yield id

    monkeypatch.setattr(Records, "load", counted_load)
    monkeypatch.setattr(Records, "ids", counted_ids)
    seen: list[int] = []
    first = say(storage, *map(str, range(10)))
    for many in (10, 20, 40):
        say(storage, *map(str, range(many, 2 * many)))
        reads[0] = 0
        assert said(storage, limit=3) == [str(2 * many - 3), str(2 * many - 2), str(2 * many - 1)]
        assert said(storage, limit=3, before=first[5].id) == ["2", "3", "4"]
        seen.append(reads[0])
    assert len(set(seen)) == 1, seen


def test_messages_of_an_earlier_release_are_read_and_go_on(storage: AgentKernelStorage) -> None:
    """It stored a record for each, and their numbers by their ids."""
    messages = [UserMsg(name="ada", content=text) for text in ("one", "two", "three", "four")]
    numbers, rows = storage._numbers, storage._messages
    for number, message in enumerate(messages, 1):
        if number != 2:  # it was deleted
            numbers.put(module._Number(id=module._key("ada", "s", message.id), number=number))
            rows.put(module._Message(id=module._message_key("ada", "s", number), message=module._json(message)))
    numbers.put(module._Number(id=module._key("ada", "s"), number=4))
    assert said(storage) == ["one", "three", "four"]
    assert said(storage, before=messages[3].id) == ["one", "three"]
    assert do(storage.get_message("ada", "s", messages[2].id)) == messages[2]
    assert do(storage.get_message("ada", "s", messages[1].id)) is None
    changed = messages[0].model_copy(update={"content": UserMsg(name="ada", content="first").content})
    do(storage.upsert_message("ada", "s", changed))
    say(storage, "five")
    assert said(storage) == ["first", "three", "four", "five"]
    assert not do(storage.delete_message("ada", "s", messages[1].id))
    assert do(storage.delete_message("ada", "s", messages[2].id))
    assert said(storage) == ["first", "four", "five"]
    assert not len(numbers)
    assert not len(rows)


def test_a_conversation_costs_what_is_said_in_it(repo: ak.Repository, tmp_path: Path) -> None:
    """Question and answer are stored one by one; on the branch each took four times its bytes."""
    storage, turns = AgentKernelStorage(repo), 250

    def grow() -> tuple[int, int]:
        own = 0
        for number in range(2 * turns):
            message = UserMsg(name="ada", content=base64.b85encode(os.urandom(820)).decode() + str(number))
            own += len(message.model_dump_json())
            do(storage.upsert_message("ada", "s", message))
        return own, sum(file.stat().st_blocks * 512 for file in tmp_path.rglob("*") if file.is_file())

    grow()  # until as much lies beside the branch as may
    _, before = grow()
    own, after = grow()
    assert after - before <= 1.2 * own


def test_a_session_that_begins_again_has_no_old_messages(storage: AgentKernelStorage) -> None:
    begin(storage, session_id="s")
    say(storage, "old", "older")
    say(storage, "of another session", session="s/")
    do(storage.delete_session("ada", "a", "s"))
    assert said(storage) == []
    begin(storage, session_id="s")
    say(storage, "new")
    assert said(storage) == ["new"]
    assert said(storage, "s/") == ["of another session"]


# -- what goes away with what


def test_an_agent_takes_its_sessions_schedules_and_teams_along(storage: AgentKernelStorage) -> None:
    leader, worker, guest = (agent("ada", id=id) for id in ("leader", "worker", "guest"))
    for one in (leader, worker, guest):
        do(storage.upsert_agent("ada", one))
    s_leader, s_worker, s_guest = (
        begin(storage, agent_id=one.id, session_id=f"s-{one.id}") for one in (leader, worker, guest)
    )
    begin(storage, agent_id="guest", session_id="own")
    members = [
        TeamMember(owner_id="ada", agent_id="worker", session_id=s_worker.id, role="created"),
        TeamMember(owner_id="ada", agent_id="guest", session_id=s_guest.id, role="invited"),
    ]
    record = team("ada", s_leader.id, members)
    do(storage.upsert_team("ada", record))
    for one in (s_leader, s_worker, s_guest):
        do(storage.set_session_team_id("ada", one.id, record.id))
    plan = schedule("ada", "leader")
    do(storage.upsert_schedule("ada", plan))
    by_plan = begin(storage, agent_id="leader", origin=ScheduleOrigin(schedule_id=plan.id))
    say(storage, "hello", session=by_plan.id)

    assert do(storage.delete_agent("ada", "leader"))
    assert [one.id for one in do(storage.list_agents("ada"))] == ["guest"]
    assert do(storage.list_teams("ada")) == do(storage.list_all_schedules()) == []
    sessions = [
        id for id in (s_leader.id, s_worker.id, s_guest.id, "own", by_plan.id) if do(storage.get_session("ada", "", id))
    ]
    assert sessions == ["own"]
    assert said(storage, by_plan.id) == []


def test_an_agent_that_was_never_stored_takes_its_sessions_and_schedules_along(storage: AgentKernelStorage) -> None:
    begin(storage, agent_id="ghost", session_id="gone")
    begin(storage, agent_id="other", session_id="stays")
    do(storage.upsert_schedule("ada", schedule("ada", "ghost")))
    say(storage, "hello", session="gone")
    assert not do(storage.delete_agent("ada", "ghost"))
    assert [id for id in ("gone", "stays") if do(storage.get_session("ada", "", id))] == ["stays"]
    assert said(storage, "gone") == do(storage.list_all_schedules()) == []


def test_a_team_ends_with_its_leaders_session_or_alone(storage: AgentKernelStorage) -> None:
    do(storage.upsert_agent("ada", agent("ada", id="lead")))
    for deletes_team in (True, False):
        do(storage.upsert_agent("ada", agent("ada", id="made", source="team")))
        leader, worker = begin(storage, agent_id="lead"), begin(storage, agent_id="made")
        member = TeamMember(owner_id="ada", agent_id="made", session_id=worker.id, role="created")
        record = do(storage.upsert_team("ada", team("ada", leader.id, [member])))
        do(storage.set_session_team_id("ada", leader.id, record.id))
        if deletes_team:
            assert do(storage.delete_team("ada", record.id))
            assert do(storage.get_session("ada", "lead", leader.id)).team_id is None
        else:
            assert do(storage.delete_session("ada", "lead", leader.id))
        assert do(storage.get_team("ada", record.id)) is do(storage.get_agent("ada", "made")) is None
        assert do(storage.get_session("ada", "made", worker.id)) is None
    assert do(storage.get_agent("ada", "lead")) is not None


def test_a_member_that_goes_is_taken_out_of_its_team(storage: AgentKernelStorage) -> None:
    members = [TeamMember(owner_id="ada", agent_id=id, session_id=id, role="invited") for id in ("b", "c")]
    record = team("ada", members=members)
    vars(record.data)["member_ids"] = ["b", "c"]
    do(storage.upsert_team("ada", record))
    do(storage.upsert_agent("ada", agent("ada", id="b")))
    begin(storage, agent_id="b", session_id="b")
    do(storage.delete_session("ada", "b", "b"))
    assert len(do(storage.get_team("ada", record.id)).data.members) == 2
    do(storage.delete_agent("ada", "b"))
    left = do(storage.get_team("ada", record.id)).data
    assert ([one.agent_id for one in left.members], vars(left)["member_ids"]) == (["c"], ["c"])


def test_an_old_team_without_roles_takes_its_agents_along(storage: AgentKernelStorage) -> None:
    record = team("ada")
    vars(record.data)["member_ids"] = ["b"]
    do(storage.upsert_team("ada", record))
    do(storage.upsert_agent("ada", agent("ada", id="b")))
    assert do(storage.delete_team("ada", record.id))
    assert do(storage.get_agent("ada", "b")) is None


def test_a_schedule_takes_the_sessions_along_that_it_began(storage: AgentKernelStorage) -> None:
    plan = schedule("ada")
    do(storage.upsert_schedule("ada", plan))
    do(storage.upsert_schedule("bob", schedule("bob")))
    ids = [begin(storage, origin=ScheduleOrigin(schedule_id=one)).id for one in (plan.id, plan.id, "other")]
    assert do(storage.delete_schedule("ada", plan.id))
    assert [one.id for one in do(storage.list_sessions("ada", "a"))] == ids[2:]
    assert [one.user_id for one in do(storage.list_all_schedules())] == ["bob"]


def test_a_procedure_takes_its_runs_and_their_sessions_along(storage: AgentKernelStorage) -> None:
    plan = sop("ada")
    do(storage.upsert_sop("ada", plan))
    sessions = [begin(storage).id for _ in range(3)]
    runs = [
        sop_run("ada", id, sessions={"main": one}) for id, one in zip((plan.id, plan.id, "p"), sessions, strict=True)
    ]
    for run in runs:
        do(storage.upsert_sop_run("ada", run))
    assert do(storage.delete_sop_run("ada", runs[0].id))
    assert do(storage.delete_sop("ada", plan.id))
    assert [one.id for one in do(storage.list_sop_runs("ada"))] == [runs[2].id]
    assert [one.id for one in do(storage.list_sessions("ada", "a"))] == sessions[2:]


def test_runs_are_found_by_procedure_and_phase_the_newest_first(storage: AgentKernelStorage) -> None:
    runs = [sop_run("ada", id) for id in ("p", "p", "q")]
    for run in runs:
        do(storage.upsert_sop_run("ada", run))
    state = SOPRunState(steps=[SOPStepRunState(phase=SOPPhase.RUNNING)])
    do(storage.update_sop_run("ada", runs[1].id, state, {"main": "s"}))
    do(storage.update_sop_run("ada", runs[1].id, state))
    assert do(storage.get_sop_run("ada", runs[1].id)).sessions == {"main": "s"}
    assert [one.id for one in do(storage.list_sop_runs("ada", "p"))] == [runs[1].id, runs[0].id]
    assert [one.id for one in do(storage.list_sop_runs("ada", phase=SOPPhase.RUNNING))] == [runs[1].id]
    assert [one.id for one in do(storage.list_sop_runs("ada", "q", SOPPhase.PENDING))] == [runs[2].id]
    with pytest.raises(KeyError, match="missing"):
        do(storage.update_sop_run("ada", "missing", state))


# -- knowledge


def test_documents_belong_to_a_knowledge_base(storage: AgentKernelStorage) -> None:
    books, other = base("ada"), base("ada")
    for one in (books, other):
        do(storage.upsert_knowledge_base("ada", one))
    one, two = document("ada", books.id), document("ada", books.id, "b.txt")
    for record in (one, two):
        assert do(storage.upsert_knowledge_document("ada", record)).id == record.id
    assert do(storage.get_knowledge_document("ada", books.id, one.id)).data.filename == "a.txt"
    assert do(storage.get_knowledge_document("ada", other.id, one.id)) is None
    assert do(storage.get_knowledge_document("bob", books.id, one.id)) is None
    assert [found.id for found in do(storage.list_knowledge_documents("ada", books.id))] == [one.id, two.id]
    assert do(storage.delete_knowledge_document("ada", books.id, one.id))
    assert not do(storage.delete_knowledge_document("ada", books.id, one.id))
    assert do(storage.delete_knowledge_base("ada", books.id))
    assert do(storage.list_knowledge_documents("ada", books.id)) == []
    with pytest.raises(ak.RecordNotFoundError):
        do(storage.upsert_knowledge_document("ada", two))
    for refused in (storage.upsert_knowledge_base("bob", other), storage.upsert_knowledge_document("bob", two)):
        with pytest.raises(ValueError, match="'ada', not 'bob'"):
            do(refused)


def test_a_documents_status_is_changed_alone(storage: AgentKernelStorage) -> None:
    books = do(storage.upsert_knowledge_base("ada", base("ada")))
    one = do(storage.upsert_knowledge_document("ada", document("ada", books.id)))
    do(storage.update_knowledge_document_status("ada", books.id, one.id, "error", error="too large"))
    do(storage.update_knowledge_document_status("ada", books.id, one.id, "ready", chunk_count=3))
    do(storage.update_knowledge_document_status("ada", books.id, "missing", "ready"))
    found = do(storage.get_knowledge_document("ada", books.id, one.id))
    assert (found.status, found.data.error, found.data.chunk_count) == ("ready", "too large", 3)
    assert found.data.filename == one.data.filename


def test_a_lease_is_held_by_one_worker_until_it_is_over(storage: AgentKernelStorage) -> None:
    books = do(storage.upsert_knowledge_base("ada", base("ada")))
    place = ("ada", books.id, do(storage.upsert_knowledge_document("ada", document("ada", books.id))).id)
    now, minute = datetime.now(), timedelta(minutes=1)

    def take(worker: str, at: datetime) -> bool:
        return do(storage.acquire_knowledge_document_lease(*place, worker, minute, at))

    def renew(worker: str, at: datetime) -> bool:
        return do(storage.renew_knowledge_document_lease(*place, worker, minute, at))

    assert (take("one", now), take("two", now), take("one", now)) == (True, False, False)
    assert (renew("two", now), renew("one", now + minute)) == (False, True)
    assert not take("two", now + minute * 1.5)
    assert take("two", (now + minute * 3).astimezone(UTC))
    assert not renew("one", now)
    do(storage.release_knowledge_document_lease(*place, "one"))
    assert do(storage.get_knowledge_document(*place)).processing_node == "two"
    do(storage.release_knowledge_document_lease(*place, "two"))
    found = do(storage.get_knowledge_document(*place))
    assert (found.processing_node, found.lease_expires_at) == (None, None)
    missing = (*place[:2], "missing")
    assert not do(storage.acquire_knowledge_document_lease(*missing, "one", minute))
    do(storage.release_knowledge_document_lease(*missing, "one"))
    assert do(storage.acquire_knowledge_document_lease(*place, "one", minute))


def test_documents_that_nobody_works_on_are_found_of_all_users(storage: AgentKernelStorage) -> None:
    now, hour = datetime.now(), timedelta(hours=1)
    ids: dict[str, str] = {}
    for user in ("ada", "bob"):
        books = do(storage.upsert_knowledge_base(user, base(user)))
        for name in ("waiting", "held", "dead", "done"):
            one = document(user, books.id, name, created_at=now - hour)
            ids[f"{user} {name}"] = one.id
            do(storage.upsert_knowledge_document(user, one))
            if name != "waiting":
                began = now if name == "held" else now - 2 * hour
                assert do(storage.acquire_knowledge_document_lease(user, books.id, one.id, "worker", hour, began))
                status: Any = "ready" if name == "done" else "parsing"
                do(storage.update_knowledge_document_status(user, books.id, one.id, status))
    expired = {one.id for one in do(storage.list_knowledge_documents_with_expired_lease(now))}
    assert expired == {ids["ada dead"], ids["bob dead"]}
    assert {one.id for one in do(storage.list_knowledge_documents_with_expired_lease())} == expired
    waiting = {ids["ada waiting"], ids["bob waiting"]}
    assert {one.id for one in do(storage.list_knowledge_documents_pending_since(now))} == waiting
    assert do(storage.list_knowledge_documents_pending_since((now - 2 * hour).astimezone(UTC))) == []


# -- what is ours


def test_a_checkout_rewinds_the_conversation_and_the_variables_as_one(repo: ak.Repository) -> None:
    storage = AgentKernelStorage(repo)
    plan, books = schedule("ada"), base("ada")
    with ak.Versioned(repo) as variables:
        for turn in ("first", "second"):
            say(storage, turn)
            begin(storage, session_id="s", state=AgentState(summary=turn))
            variables["turn"] = turn
            variables.commit(turn)
            repo.create_tag(turn, repo.resolve("HEAD"))
        do(storage.upsert_schedule("ada", plan))
        do(storage.upsert_knowledge_base("ada", books))
        variables.rollback("first")
        assert (variables["turn"], said(storage)) == ("first", ["first"])
        assert do(storage.get_session("ada", "a", "s")).state.summary == "first"
        assert do(storage.get_schedule("ada", plan.id)) is not None
        assert do(storage.get_knowledge_base("ada", books.id)) is not None
        variables.undo()
        assert (variables["turn"], said(storage)) == ("second", ["first", "second"])


def test_on_the_plane_of_the_store_a_checkout_rewinds_nothing(repo: ak.Repository) -> None:
    storage = AgentKernelStorage(repo, plane="store")
    with ak.Versioned(repo) as variables:
        for turn in ("first", "second"):
            say(storage, turn)
            variables["turn"] = turn
            variables.commit(turn)
        variables.undo()
        assert (variables["turn"], said(storage)) == ("first", ["first", "second"])


def test_a_branch_has_conversations_of_its_own(repo: ak.Repository) -> None:
    storage = AgentKernelStorage(repo)
    say(storage, "common")
    repo.create_branch("idea", repo.resolve("HEAD"))
    idea = AgentKernelStorage(repo, branch="idea")
    say(idea, "another way")
    assert (said(storage), said(idea)) == (["common"], ["common", "another way"])


def test_a_deletion_is_one_commit(repo: ak.Repository) -> None:
    storage = AgentKernelStorage(repo)
    do(storage.upsert_agent("ada", agent("ada", id="a")))
    for _ in range(3):
        say(storage, "hello", session=begin(storage).id)
    before = repo.resolve("HEAD")
    do(storage.delete_agent("ada", "a"))
    assert repo.commit_at(repo.resolve("HEAD")).parents == (before,)


def test_several_calls_are_one_commit_or_nothing(repo: ak.Repository) -> None:
    storage = AgentKernelStorage(repo)
    say(storage, "before")
    before = repo.resolve("HEAD")
    with repo.transaction("a turn"):
        say(storage, "hello")
        begin(storage, session_id="s")
        assert said(storage) == ["before", "hello"]
    assert repo.commit_at(repo.resolve("HEAD")).parents == (before,)

    def fail() -> None:
        with repo.transaction():
            say(storage, "half of it")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert said(storage) == ["before", "hello"]


def test_another_process_goes_on(repo: ak.Repository, tmp_path: Path) -> None:
    say(AgentKernelStorage(repo), "hello")

    async def go_on() -> list[Any]:
        async with AgentKernelStorage(tmp_path / "store") as storage:
            await storage.upsert_message("ada", "s", UserMsg(name="ada", content="again"))
            return (await storage.list_messages("ada", "s"))[0]

    assert [message.get_text_content() for message in do(go_on())] == ["hello", "again"]
    assert said(AgentKernelStorage(repo)) == ["hello", "again"]


def test_of_workers_in_several_processes_one_gets_the_lease(repo: ak.Repository, tmp_path: Path) -> None:
    storage = AgentKernelStorage(repo)
    books = do(storage.upsert_knowledge_base("ada", base("ada")))
    ids = [do(storage.upsert_knowledge_document("ada", document("ada", books.id))).id for _ in range(8)]
    code = """
import asyncio, sys
from datetime import timedelta
from agent_kernel.integrations import agentscope as module
from agent_kernel.integrations.agentscope import AgentKernelStorage

async def work(path, base, worker, *ids):
    async with AgentKernelStorage(path) as storage:
        for id in ids:
            if await storage.acquire_knowledge_document_lease("ada", base, id, worker, timedelta(minutes=1)):
                print(id)

asyncio.run(work(*sys.argv[1:]))
"""
    command = [sys.executable, "-c", code, str(tmp_path / "store"), books.id]
    workers = [subprocess.Popen([*command, str(number), *ids], stdout=-1, text=True) for number in range(2)]
    taken = [id for worker in workers for id in worker.communicate()[0].split()]
    assert sorted(taken) == sorted(ids)


def test_many_coroutines_add_messages_at_once(storage: AgentKernelStorage) -> None:
    messages = [UserMsg(name="ada", content=str(number)) for number in range(12)]

    async def all_at_once() -> None:
        await asyncio.gather(*(storage.upsert_message("ada", "s", message) for message in messages))

    do(all_at_once())
    assert sorted(said(storage), key=lambda text: int(text or 0)) == [str(number) for number in range(12)]


def test_a_turn_costs_what_is_new_in_it(repo: ak.Repository) -> None:
    """The state holds the whole conversation, is stored after each turn, and each turn is a commit of its own: the worst case."""
    storage, state = AgentKernelStorage(repo), AgentState()
    session = begin(storage)

    async def talk(turns: int) -> None:
        for _ in range(turns):
            state.context.append(UserMsg(name="ada", content=os.urandom(1_024).hex()))
            await storage.update_session_state("ada", "a", session.id, state)

    def grow(turns: int) -> float:
        before = sum(repo.stats().stored.values())
        do(talk(turns))
        return (sum(repo.stats().stored.values()) - before) / (turns * 2_048)

    do(talk(80))  # from where the pieces of a state have the sizes that they keep
    middle, _, late = grow(40), grow(40), grow(40)
    assert late < 4
    assert late < 1.3 * middle
