"""A history is read over HTTP as a kernel's panel reads it, and sent again only when it changed."""

from __future__ import annotations

import shutil
import time
from typing import cast

from agent_kernel.commands.places import remember, store_path_of
from agent_kernel.errors import StoreUnavailableError
from agent_kernel.session import Repository, bind
from agent_kernel.storage.lmdb import LmdbStore
from tests.server.servers import TOKEN, Server, Written, run, write_notebook


def test_the_store_of_a_notebook_has_an_id_that_says_nothing_of_where_it_lies(server: Server, study: Written) -> None:
    answer = server.get("/notebooks", path="houses/study.ipynb")
    assert answer.status == 200
    assert answer.body["path"] == "houses/study.ipynb"
    assert answer.body["store"]["name"] == "study"
    assert len(answer.body["store"]["id"]) == 32
    assert str(server.root) not in str(answer)


def test_a_notebook_without_a_history_has_no_store(server: Server) -> None:
    (server.root / "new.ipynb").write_text("{}")
    answer = server.get("/notebooks", path="new.ipynb")
    assert (answer.status, answer.body["store"]) == (200, None)


def test_a_store_that_was_bound_instead_is_the_notebooks_one(server: Server) -> None:
    write_notebook(server.root / "chosen.ipynb", "x = 1")
    (server.root / "bound.ipynb").write_text("{}")
    assert remember(store_path_of(server.root / "bound.ipynb"), f"lmdb://{store_path_of(server.root / 'chosen.ipynb')}")
    assert server.store("bound.ipynb") == server.store("chosen.ipynb")


def test_the_list_and_a_commit_are_what_the_kernel_would_answer(server: Server, study: Written) -> None:
    store = server.store("houses/study.ipynb")
    opening = server.get(f"/stores/{store}/open", text="", show="all", tz_s=3600, n=60).body
    rows = [row for row in opening["page"]["rows"] if row["kind"] == "commit"]
    assert [row["id"] for row in rows] == study.commits[::-1]
    assert opening["state"]["kernel"] is False
    commit = server.get(f"/stores/{store}/commit", id=study.commits[1]).body
    assert commit["subject"] == "Convert to euros"
    assert [change["name"] for change in commit["changes"]] == ["df"]


def test_rows_come_by_pages_of_one_version(server: Server, study: Written) -> None:
    store = server.store("houses/study.ipynb")
    version = server.get(f"/stores/{store}/version").body["version"]
    pages = [server.get(f"/stores/{store}/rows", **{"from": start, "n": 2, "version": version}) for start in (0, 2, 4)]
    rows = [row for page in pages for row in page.body["rows"] if row["kind"] == "commit"]
    assert [row["id"] for row in rows] == study.commits[::-1]
    assert {page.body["version"] for page in pages} == {version}


def test_a_page_of_a_history_that_moved_on_is_a_conflict(server: Server) -> None:
    notebook = write_notebook(server.root / "moving.ipynb", "x = 1")
    store = server.store("moving.ipynb")
    version = server.get(f"/stores/{store}/version").body["version"]
    run(store_path_of(notebook.path), "x = 2")
    answer = server.get(f"/stores/{store}/rows", **{"from": 0, "n": 2, "version": version})
    assert answer.status == 409
    assert answer.body["error"]["message"] == "the history has moved on since that page; begin with its first one again"
    assert server.get(f"/stores/{store}/rows", **{"from": 0, "n": 2}).body["version"] != version


def test_what_did_not_change_is_not_sent_again(server: Server) -> None:
    notebook = write_notebook(server.root / "tagged.ipynb", "x = 1", "y = 2")
    path = f"/stores/{server.store('tagged.ipynb')}/rows?n=10"
    first = server.send("GET", path)
    again = {**TOKEN, "If-None-Match": first.headers["Etag"]}
    assert server.send("GET", path, again)[::2] == (304, b"")
    assert server.send("GET", path.replace("n=10", "n=11"), again).status == 200
    run(store_path_of(notebook.path), "x = 3")
    moved = server.send("GET", path, again)
    assert moved.status == 200
    assert moved.headers["Etag"] != first.headers["Etag"]


def test_what_no_version_covers_is_compared_by_its_bytes(server: Server, study: Written) -> None:
    path = f"/stores/{server.store('houses/study.ipynb')}/branches"
    first = server.send("GET", path)
    assert [branch["name"] for branch in first.body] == ["main"]
    assert server.send("GET", path, {**TOKEN, "If-None-Match": first.headers["Etag"]}).status == 304


def test_a_store_is_closed_when_nobody_asks_any_more(server: Server) -> None:
    notebook = write_notebook(server.root / "idle.ipynb", "x = list(range(1000))", "x = 1")
    server.get(f"/stores/{server.store('idle.ipynb')}/version")
    with Repository.open(store_path_of(notebook.path)) as repo:
        session = bind({}, repo)
        session.close()
        end = time.monotonic() + 20
        while True:
            try:
                cast("LmdbStore", repo.store).compact()
            except StoreUnavailableError:  # while others have it open
                assert time.monotonic() < end
                time.sleep(0.1)
            else:
                break


def test_a_store_that_was_replaced_is_opened_anew(server: Server) -> None:
    notebook = write_notebook(server.root / "replaced.ipynb", "x = 1")
    store = server.store("replaced.ipynb")
    before = server.get(f"/stores/{store}/version").body["version"]
    shutil.rmtree(store_path_of(notebook.path))
    assert server.get(f"/stores/{store}/version").status in (403, 404)
    run(store_path_of(notebook.path), "x = 2")
    after = server.get(f"/stores/{store}/version")
    assert after.status == 200
    assert after.body["version"] != before
