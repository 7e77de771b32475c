"""Who may look, at what, and what is said to everyone else: one status, one line, and nothing is ever changed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Generator
from pathlib import Path

import pytest

from agent_kernel.commands.places import store_path_of
from agent_kernel.errors import (
    AgentKernelError,
    AmbiguousRefError,
    DamagedObjectError,
    RefNotFoundError,
    RequestError,
    TooLargeError,
)
from agent_kernel.server import problem_of
from tests.server.servers import API, BASE, Answer, Server, Written, run, write_notebook

AUTHORIZER = """
from jupyter_server.auth import Authorizer

class Denies(Authorizer):
    def is_authorized(self, handler, user, action, resource):
        self.log.warning("asked: %s %s", action, resource)
        return False

c.ServerApp.authorizer_class = Denies
"""


def line(answer: Answer) -> str:
    """What is said, which must be one line, and the same for programs and people."""
    said = answer.body["error"]["message"]
    assert isinstance(said, str)
    assert said
    assert "\n" not in said
    assert answer.body["message"] == said
    return said


@pytest.mark.parametrize(
    "path", ["/notebooks?path=x.ipynb", f"/stores/{'0' * 32}/version", f"/stores/{'0' * 32}/open", "/x"]
)
def test_every_route_wants_to_know_who_asks(server: Server, path: str) -> None:
    assert server.send("GET", path, {}).status == 403
    assert server.send("GET", path, {"Authorization": "token wrong"}).status == 403


def test_every_route_asks_whether_the_user_may_read_histories(tmp_path: Path) -> None:
    (tmp_path / "denies.py").write_text(AUTHORIZER)
    denying = Server(tmp_path / "home", f"--config={tmp_path / 'denies.py'}")
    try:
        denying.wait()
        routes = ["/notebooks?path=x.ipynb", *(f"/stores/{'0' * 32}/{op}" for op in ("version", "open", "rows")), "/x"]
        assert {denying.send("GET", route).status for route in routes} == {403}
        assert denying.log().count("asked: read agent_kernel") >= len(routes)
    finally:
        denying.stop()


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_nothing_can_be_changed(server: Server, study: Written, method: str) -> None:
    store = server.store("houses/study.ipynb")
    for path in ("/notebooks", f"/stores/{store}/version", f"/stores/{store}/open"):
        assert server.send(method, path).status == 405


def test_a_request_that_changes_without_the_servers_cookie_is_not_even_looked_at(server: Server) -> None:
    login = server.send("GET", f"{BASE}/tree?token=secret", {})
    cookie = login.headers.get("Set-Cookie", "").partition(";")[0]
    answer = server.send("POST", "/notebooks", {"Cookie": cookie})
    assert answer.status == 403


def test_a_page_of_another_site_learns_nothing(server: Server, study: Written) -> None:
    login = server.send("GET", f"{BASE}/api/status?token=secret", {})
    cookie = login.headers["Set-Cookie"].partition(";")[0]
    asked = {"Cookie": cookie, "Origin": "https://elsewhere.example", "Host": f"127.0.0.1:{server.port}"}
    assert server.send("GET", "/notebooks?path=houses/study.ipynb", asked).status in (403, 404)


def test_answers_are_data_and_never_a_page(server: Server, study: Written) -> None:
    found = server.get("/notebooks", path="houses/study.ipynb").headers
    wrong = server.get("/notebooks").headers
    for headers in (found, wrong):
        assert headers["Content-Type"] == "application/json"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Cache-Control"] == "private, no-cache"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "the parameter 'path' is missing"),
        ("?path=a.ipynb&path=b.ipynb", "the parameter 'path' is given twice"),
        ("?path=a.ipynb&way=up", "there is no parameter 'way' (there are: path)"),
        ("?path=", "path names a notebook, relative to the server's root folder"),
        ("?path=../a.ipynb", "path names a notebook, relative to the server's root folder"),
        ("?path=%00.ipynb", "path names a notebook, relative to the server's root folder"),
        ("?path=%ff.ipynb", "the parameter 'path' is not UTF-8"),
    ],
)
def test_what_cannot_be_meant_is_refused(server: Server, query: str, said: str) -> None:
    answer = server.send("GET", f"/notebooks{query}")
    assert (answer.status, line(answer)) == (400, said)


@pytest.mark.parametrize(
    "query", ["from=x&n=1", "n=1.5", "n=-3", "n=999999", "show=some", "tz_s=9999999", "text=" + "x" * 1001]
)
def test_arguments_out_of_bounds_are_refused(server: Server, study: Written, query: str) -> None:
    answer = server.send("GET", f"/stores/{server.store('houses/study.ipynb')}/rows?{query}")
    assert answer.status == 400
    assert line(answer)


def test_what_is_not_there_is_not_found(server: Server, study: Written) -> None:
    store = server.store("houses/study.ipynb")
    assert line(server.get("/notebooks", path="houses/none.ipynb")) == "there is no notebook 'houses/none.ipynb'"
    assert server.get("/notebooks", path="houses/none.ipynb").status == 404
    assert server.get("/notebooks", path=f"{'n' * 300}.ipynb").status == 404
    assert server.get(f"/stores/{'0' * 32}/version").status == 404
    unknown = server.get(f"/stores/{store}/commit", id="nothing")
    assert unknown.status == 404
    assert "nothing" in line(unknown)
    assert line(server.get(f"/stores/{store}/pickle")) == "there is nothing at this address"
    assert server.get(f"/stores/{store}/pickle").status == 404


def test_a_notebook_that_jupyter_hides_is_not_found(server: Server) -> None:
    write_notebook(server.root / ".hidden" / "a.ipynb", "x = 1")
    write_notebook(server.root / ".a.ipynb", "x = 1")
    for path in (".hidden/a.ipynb", ".a.ipynb", "./.hidden/../.a.ipynb"):
        assert server.get("/notebooks", path=path).status == (400 if ".." in path else 404)
    assert line(server.get("/notebooks", path=".a.ipynb")) == "there is no notebook '.a.ipynb'"


@pytest.fixture(scope="module")
def allowing(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Server, Path]]:
    """A server that hides nothing, and a folder outside its root folder that it may look at."""
    folder = tmp_path_factory.mktemp("allowed")
    options = ("--ContentsManager.allow_hidden=True", f"--AgentKernelServer.allowed_roots={folder}")
    started = Server(tmp_path_factory.mktemp("allowing"), *options)
    try:
        started.wait()
        yield started, folder
    finally:
        started.stop()


def test_a_notebook_that_jupyter_was_told_not_to_hide_is_found(allowing: tuple[Server, Path]) -> None:
    showing, _ = allowing
    write_notebook(showing.root / ".hidden" / "a.ipynb", "x = 1")
    assert showing.get("/notebooks", path=".hidden/a.ipynb").body["store"]["name"] == "a"


@pytest.mark.parametrize("path", ["./houses/study.ipynb", "/houses//study.ipynb", "houses/./study.ipynb"])
def test_a_path_is_answered_in_the_one_way_in_which_jupyter_writes_it(
    server: Server, study: Written, path: str
) -> None:
    assert server.get("/notebooks", path=path).body["path"] == "houses/study.ipynb"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (AmbiguousRefError("7c", ("7c1e9f2", "7c8b0d4")), 409),
        (RefNotFoundError("trian"), 404),
        (RequestError("rows", "n is negative"), 400),
        (TooLargeError("the text", 9_000_000, 1_000_000), 413),
        (DamagedObjectError("commit", "7c1e9f2"), 500),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_error_has_its_status_and_one_line(error: AgentKernelError, status: int) -> None:
    found = problem_of(error)
    assert found.status == status
    assert found.message
    assert "\n" not in found.message


@pytest.fixture
def outside(tmp_path: Path) -> Generator[Path]:
    """A store of this user's, outside the server's root folder."""
    run(tmp_path / "outside", "secret = 1")
    yield tmp_path / "outside"
    shutil.rmtree(tmp_path / "outside")


@pytest.mark.parametrize("linked", ["store", "folder", "data", "notebook"])
def test_no_link_leads_out(server: Server, outside: Path, linked: str) -> None:
    folder = server.root / f"linked-{linked}"
    folder.mkdir()
    own = store_path_of(folder / "a.ipynb")
    if linked == "notebook":
        (outside.parent / "a.ipynb").write_text("{}")
        (folder / "a.ipynb").symlink_to(outside.parent / "a.ipynb")
    else:
        (folder / "a.ipynb").write_text("{}")
    if linked == "folder":
        own.parent.symlink_to(outside.parent)
        outside.rename(outside.parent / "a")
    if linked == "store":
        own.parent.mkdir()
        own.symlink_to(outside)
    if linked == "data":
        own.mkdir(parents=True)
        for name in ("data.mdb", "lock.mdb"):
            (own / name).symlink_to(outside / name)
    answer = server.get("/notebooks", path=f"linked-{linked}/a.ipynb")
    assert answer.status == 403
    assert line(answer) == "this history lies outside the folders that this server may look at"
    if linked == "folder":
        (outside.parent / "a").rename(outside)


def test_a_link_that_is_made_later_leads_nowhere_either(server: Server, outside: Path) -> None:
    notebook = write_notebook(server.root / "later.ipynb", "x = 1")
    store = server.store("later.ipynb")
    assert server.get(f"/stores/{store}/version").status == 200
    own = store_path_of(notebook.path)
    shutil.rmtree(own)
    own.symlink_to(outside)
    assert server.get(f"/stores/{store}/version").status == 403


def test_a_note_that_names_a_store_outside_leads_nowhere(server: Server, outside: Path) -> None:
    (server.root / "noted.ipynb").write_text("{}")
    own = store_path_of(server.root / "noted.ipynb")
    own.mkdir(parents=True)
    (own / "bound.json").write_text(json.dumps({"version": 1, "store": str(outside)}))
    assert server.get("/notebooks", path="noted.ipynb").status == 403


def test_a_folder_that_was_allowed_may_be_looked_at(allowing: tuple[Server, Path]) -> None:
    server, folder = allowing
    run(folder / "outside", "secret = 1")
    (server.root / "noted.ipynb").write_text("{}")
    own = store_path_of(server.root / "noted.ipynb")
    own.mkdir(parents=True)
    (own / "bound.json").write_text(json.dumps({"version": 1, "store": str(folder / "outside")}))
    assert server.get(f"/stores/{server.store('noted.ipynb')}/version").status == 200


def test_a_store_that_someone_else_made_is_not_opened(
    server: Server, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("theirs")))
        notebook = write_notebook(server.root / "theirs.ipynb", "x = 1")
    answer = server.get("/notebooks", path="theirs.ipynb")
    assert answer.status == 403
    assert line(answer).startswith("this history was made elsewhere")
    data = store_path_of(notebook.path) / "data.mdb"
    assert str(data) not in _open_files(server.process.pid)


def test_a_store_that_was_exchanged_for_someone_elses_is_closed_again(
    server: Server, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = write_notebook(server.root / "exchanged.ipynb", "x = 1")
    store = server.store("exchanged.ipynb")
    shutil.rmtree(store_path_of(notebook.path))
    with monkeypatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("theirs")))
        run(store_path_of(notebook.path), "x = 2")
    answer = server.get(f"/stores/{store}/version")
    assert answer.status == 403
    assert line(answer).startswith("this history was made elsewhere")
    assert str(store_path_of(notebook.path) / "data.mdb") not in _open_files(server.process.pid)


def _open_files(process: int) -> set[str]:
    folder = Path(f"/proc/{process}/fd")
    return {os.path.realpath(found) for found in folder.iterdir()} if folder.is_dir() else set()


def test_the_address_holds_below_the_servers_own(server: Server) -> None:
    assert API.startswith(BASE)
    assert server.send("GET", "/agent-kernel/api/v1/notebooks").status == 404
