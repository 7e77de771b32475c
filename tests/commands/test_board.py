"""The board: what goes on in a store, as tables, as JSON, and live."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import agent_kernel as ak
from agent_kernel.commands.scope import Scope, UsageProblem, answer
from agent_kernel.panels.widget import LiveDisplay
from tests.kernels import started


@pytest.fixture
def repo() -> Iterator[ak.Repository]:
    with ak.open("memory:") as opened:
        yield opened


def board(repo: ak.Repository, words: str = "") -> Any:
    return answer(["board", *words.split()], Scope(repo))[0]


def fill(repo: ak.Repository) -> None:
    """Something of each kind."""
    flows, teams, queue = repo.workflows, repo.teams, repo.queue("web")
    flows.start("nightly", ["load", "clean", "report"])
    with flows.step("nightly", "load"):
        pass
    teams.create("web")
    teams.join("web", "ada", ["python"])
    teams.status("web", "ada", "busy", "the parser")
    queue.push_many(["first", "second", "third"])
    queue.claim("ada")
    repo.agents.status("analyst", "running", "sums")

    @repo.tool(cache=60)
    def double(n: int) -> int:
        return 2 * n

    double(1)
    double(1)
    with repo.knowledge.indexing("docs", total=10) as indexing:
        indexing.advance(7)
        indexing.advance(failed=1)
        repo.knowledge.source("docs", "a", status="indexed", documents=8, size=12_345)
    session = repo.speech.open("conversation")
    session.stt.result("hello")
    session.turns.add("user", "hello")


def test_an_empty_board_says_so(repo: ak.Repository) -> None:
    assert board(repo).to_text().startswith("Nothing goes on here yet")
    assert board(repo).to_json() == {}


def test_it_has_a_table_for_each_kind(repo: ak.Repository) -> None:
    fill(repo)
    lines = board(repo).to_text(120).splitlines()
    assert any(line.split() == ["nightly", "███░░░░░░░", "1/3", "running", "clean", "now"] for line in lines)
    assert any(line.split() == ["web", "░░░░░░░░░░", "2", "1", "0", "0", "0%"] for line in lines)
    assert any("first" in line and "ada" in line for line in lines)
    assert any(line.split() == ["ada", "web", "busy", "the", "parser", "now"] for line in lines)
    assert any(line.split() == ["analyst", "running", "sums", "now"] for line in lines)
    assert any(line.split()[:4] == ["double", "2", "100%", "50%"] for line in lines)
    assert any(line.split()[:6] == ["docs", "████████░░", "7/10", "1", "completed", "8"] for line in lines)
    assert any(line.startswith("conversation-") and " streaming  active " in line for line in lines)


def test_programs_get_the_same_as_json(repo: ak.Repository) -> None:
    fill(repo)
    told = board(repo, "--json").to_json()
    assert list(told) == ["workflows", "queues", "tasks", "agents", "tools", "knowledge", "speech"]
    assert told["queues"] == [
        {"team": "web", "pending": 2, "in_progress": 1, "completed": 0, "failed": 0, "completion_rate": 0.0}
    ]
    assert told["tools"][0]["cache_hit_rate"] == 0.5


def test_each_line_has_its_history(repo: ak.Repository) -> None:
    fill(repo)
    for name, said in {
        "nightly": "steps load=completed clean=pending",
        "docs": "processed 7, failed 1",
        "double": "called with n=1, returned 2 from the cache",
        "web": "status in_progress, agent ada",
        "ada": "the parser",
        "analyst": "status running",
        repo.queue("web").in_progress()[0].id: "status in_progress, agent ada",
    }.items():
        assert said in board(repo, name).to_text(), name
        assert board(repo, name).to_json()[0]["by"]
    for nothing in ("nowhere", "x" * 900, "*"):
        with pytest.raises(UsageProblem, match="nothing on the board"):
            board(repo, nothing)


def test_no_text_of_a_record_is_markup_or_moves_a_cursor_and_secrets_are_masked(repo: ak.Repository) -> None:
    bad = "<script>alert(1)</script>\x1b[2J\x00"
    secret = "sk-ant-api03-" + "a1B2c3D4" * 8
    repo.workflows.start("w", [bad.replace("\0", "")])
    repo.workflows.pause("w", f"key {secret}")
    repo.teams.create("web")
    repo.teams.join("web", "ada")
    repo.teams.status("web", "ada", "busy", bad)
    for result in (board(repo), board(repo, "w"), board(repo, "ada")):
        assert "<script" not in result.to_html()
        assert "\x1b" not in result.to_text() + str(result.to_json())
        assert secret not in result.to_text() + result.to_html()


def test_arguments_under_the_name_of_a_secret_are_masked_however_deep_they_lie(repo: ak.Repository) -> None:
    login: dict[str, object] = {
        "password": "hunter2",
        "user": "ada",
        "tokens": 17,
        "deep": [{"api_key": "k-1"}, {"token": ["zyxw", 5]}],
    }
    pair = [{"name": "Cookie", "value": "crumb"}, {"name": "city", "value": "Rome"}]
    queue = repo.queue("web")
    queue.push("build", args=login)
    task = queue.claim("carl")
    assert task is not None
    queue.done(task, {"access_token": "xyz", "rows": 3})

    @repo.tool
    def fetch(url: str, password: str, headers: dict[str, str], more: object) -> dict[str, object]:
        return {"session": {"cookie": "c-1234567"}, "status": 200}

    fetch("https://x.org", "hunter2", {"Authorization": "Bearer zyxw", "Accept": "text"}, pair)
    for name in ("build", "fetch"):
        result = board(repo, name)
        text = result.to_text() + result.to_html() + str(result.to_json()) + str(result.to_panel())
        for secret in ("hunter2", "k-1", "zyxw", "xyz", "Bearer", "c-1234567", "crumb"):
            assert secret not in text, (secret, result.to_text())
    changes = str(board(repo, "build").to_json()) + str(board(repo, "fetch").to_json())
    repo.workflows.start("w", ["rotate passwords first"])
    assert "steps rotate passwords first=pending" in str(board(repo, "w").to_json())
    for shown in ("user ada", "tokens 17", "rows 3", "url=https://x.org", "'Accept': 'text'", "Rome", "200"):
        assert shown in changes


def test_each_name_that_is_shown_has_its_history(repo: ak.Repository) -> None:
    queue = repo.queue("web")
    queue.push("build")
    queue.claim("carl")
    repo.knowledge.source("docs", "a", documents=3)
    shown = board(repo).to_text()
    for name in ("build", "carl", "docs", "web"):
        assert name in shown
        assert board(repo, name).rows
    assert board(repo, "build").facts[0]["changed"].startswith("status in_progress, agent carl")


def test_a_history_has_no_empty_lines_and_no_empty_values(repo: ak.Repository) -> None:
    queue = repo.queue("web")
    queue.push("build")
    task = queue.claim("carl")
    assert task is not None
    queue.extend(task)
    queue.give_back(task)
    given_back, claimed, pushed = (facts["changed"] for facts in board(repo, "build").facts)
    assert given_back == "status pending, no agent"
    assert "agent carl" in claimed
    assert "new" in pushed


def test_a_name_that_nothing_has_is_looked_up_where_one_is(repo: ak.Repository) -> None:
    with pytest.raises(UsageProblem, match="%agent board lists all of it"):
        board(repo, "zzz")
    shell = Scope(repo, command="agent-kernel", store_name="work")
    with pytest.raises(UsageProblem, match="agent-kernel board work lists all of it"):
        answer(["board", "zzz"], shell)


def test_no_lines_are_not_nothing(repo: ak.Repository) -> None:
    fill(repo)
    assert "Nothing goes on" not in board(repo, "-n 0").to_text()
    assert "Workflows (0 of 1)" in board(repo, "-n 0").to_text()


def test_a_task_whose_lease_ended_is_shown_as_pending(repo: ak.Repository) -> None:
    queue = repo.queue("web")
    queue.push("build")
    queue.claim("carl", lease_s=0.01)
    time.sleep(0.02)
    shown = board(repo).to_json()
    assert (shown["queues"][0]["pending"], shown["queues"][0]["in_progress"]) == (1, 0)
    assert "tasks" not in shown


def test_an_agent_that_did_well_after_an_error_does_not_show_the_error_as_its_task(repo: ak.Repository) -> None:
    supervised = repo.agents.supervise("z", attempts=0)
    with pytest.raises(ZeroDivisionError):
        supervised.run(lambda: 1 / 0)
    assert "ZeroDivisionError: division by zero" in board(repo).to_text()
    supervised.run(lambda: 1)
    assert "ZeroDivisionError" not in board(repo).to_text()
    (line,) = board(repo, "--json").to_json()["agents"]
    assert (line["status"], line["task"]) == ("idle", "")
    assert supervised.stats().last_error == "ZeroDivisionError: division by zero"


def test_more_than_a_few_lines_are_counted(repo: ak.Repository) -> None:
    for number in range(5):
        repo.workflows.start(f"w{number}", ["a"])
    text = board(repo, "-n 2").to_text()
    assert "Workflows (2 of 5)" in text
    assert "w4" in text
    assert "w0" not in text


class Publisher:
    """Stands in for that of a kernel: what is published, and what is sent past the cells."""

    topic = b"display_data"
    pub_socket = None

    def __init__(self) -> None:
        self.session = self
        self.published: list[tuple[str, str]] = []

    def publish(self, data: dict[str, str], metadata: object, transient: dict[str, str]) -> None:
        self.published.append((transient["display_id"], data["text/plain"]))

    def msg(self, kind: str, content: dict[str, Any], parent: object) -> dict[str, Any]:
        assert (kind, parent) == ("update_display_data", {"cell": 1})
        return content

    def send(self, socket: object, message: dict[str, Any], ident: bytes) -> None:
        self.publish(message["data"], {}, message["transient"])


def test_it_is_shown_anew_when_it_reads_differently(repo: ak.Repository) -> None:
    publisher = Publisher()
    shell = SimpleNamespace(display_pub=publisher, kernel=SimpleNamespace(get_parent=lambda: {"cell": 1}))
    live = LiveDisplay(shell, board(repo))
    live.look()
    repo.workflows.start("nightly", ["load"])
    live.look()
    live.close()
    repo.workflows.start("later", ["load"])
    live.look()
    first, second = publisher.published
    assert first[0] == second[0]
    assert first[1].startswith("Nothing goes on")
    assert "nightly" in second[1]


def test_in_a_notebook_it_stays_up_to_date_while_a_cell_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    heard: list[dict[str, Any]] = []
    with started(tmp_path / "study.ipynb", monkeypatch) as (client, _):

        def run(code: str) -> None:
            asked = client.execute(code)
            heard.append(client.get_iopub_msg(timeout=60))
            while heard[-1]["msg_type"] != "status" or not is_end_of(heard[-1], asked):
                heard.append(client.get_iopub_msg(timeout=60))

        run("import agent_kernel as ak, time\nrepo = ak.here().session.repo")
        run("%agent board")
        run("with repo.knowledge.indexing('docs', total=4) as indexing:\n    indexing.advance(3); time.sleep(2.5)")
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not any("3/4" in text_of(message) for message in heard):
            run("time.sleep(0.5)")
    (shown,) = [message for message in heard if message["msg_type"] == "display_data" and "Nothing" in text_of(message)]
    updates = [message for message in heard if message["msg_type"] == "update_display_data"]
    assert any("3/4" in text_of(message) and "running" in text_of(message) for message in updates)
    assert {update["content"]["transient"]["display_id"] for update in updates} == {
        shown["content"]["transient"]["display_id"]
    }
    assert {update["parent_header"]["msg_id"] for update in updates} == {shown["parent_header"]["msg_id"]}


def is_end_of(message: dict[str, Any], asked: str) -> bool:
    return bool(message["content"]["execution_state"] == "idle" and message["parent_header"]["msg_id"] == asked)


def text_of(message: dict[str, Any]) -> str:
    return str(message["content"].get("data", {}).get("text/plain", ""))
