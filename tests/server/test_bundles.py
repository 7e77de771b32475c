"""`GET /bundles`: a bundle as a page that runs nothing, for whoever may look at it, and however it was made."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent_kernel.server import BundleHandler, BundlePages, ProblemError, tag_of
from tests.bundle.bundles import bundle_of, changed, make_bundle
from tests.bundle.studies import ATTACKS, Ran, make_study, printed
from tests.server.servers import Answer, Server
from tests.server.test_openapi import SPEC


@pytest.fixture(scope="module")
def bundle(server: Server) -> Path:
    return make_bundle(server.root)


def page_of(server: Server, path: str, **more: str) -> str:
    answer = server.get("/bundles", path=path, **more)
    assert answer.status == 200, answer
    return str(answer.body.decode())


def line(answer: Answer) -> str:
    return str(answer.body["error"]["message"])


def test_the_page_says_that_the_bundle_is_whole_and_shows_what_is_in_it(server: Server, bundle: Path) -> None:
    page = page_of(server, "study.agentnb")
    assert "<strong>Whole</strong>: every digest matches" in page
    assert "<p>Not signed</p>" in page
    assert '<section id="history"' in page
    assert '<b class="name">rows</b>' in page
    assert "<dt>Needs trust</dt><dd>double</dd>" in page
    assert "<dt>Fingerprint</dt>" in page


def test_nothing_in_the_page_runs_or_is_fetched(server: Server, bundle: Path) -> None:
    answer = server.get("/bundles", path="study.agentnb")
    said = answer.headers["Content-Security-Policy"].split("; ")
    assert said[0] == "default-src 'none'"
    assert "sandbox" in said
    assert "frame-ancestors 'self'" in said
    assert "script-src" not in answer.headers["Content-Security-Policy"]
    assert answer.headers["Content-Type"] == "text/html; charset=UTF-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_markup_from_a_notebook_stays_text(server: Server, tmp_path: Path) -> None:
    make_study(tmp_path / "store", *(Ran(f"said = {text!r}", [printed(text)]) for text in ATTACKS))
    bundle_of(tmp_path / "store", server.root / "attacks.agentnb")
    page = page_of(server, "attacks.agentnb")
    assert "every digest matches" in page
    for mark in ("<script", "<img src=x", "<svg/onload", "\x1b"):
        assert mark not in page


def test_a_page_has_the_theme_that_was_asked_for(server: Server, bundle: Path) -> None:
    assert "color-scheme:dark" in page_of(server, "study.agentnb", theme="dark")
    assert "color-scheme:light dark" in page_of(server, "study.agentnb")
    assert "prefers-color-scheme" not in page_of(server, "study.agentnb", theme="light")
    refused = server.get("/bundles", path="study.agentnb", theme="<b>")
    assert (refused.status, line(refused)) == (400, "the parameter 'theme' is light or dark")


def test_a_page_that_still_holds_is_not_made_again(server: Server, tmp_path: Path) -> None:
    bundle = make_bundle(server.root, "x = 1", name="again")
    tag = server.get("/bundles", path="again.agentnb").headers["Etag"]
    route = "/bundles?path=again.agentnb"
    held = {"Authorization": "token secret", "If-None-Match": tag}
    assert server.send("GET", route, held).status == 304
    assert server.send("GET", f"{route}&theme=dark", held).status == 200
    make_bundle(tmp_path, "x = 2", name="again").replace(bundle)
    assert server.send("GET", route, held).status == 200


def test_a_key_that_is_trusted_or_revoked_makes_another_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    (tmp_path / "a.agentnb").write_bytes(b"")
    before = tag_of(tmp_path / "a.agentnb", "")
    known = tmp_path / "home" / "agent-kernel" / "keys" / "known.json"
    known.parent.mkdir(parents=True)
    known.write_text("{}")
    assert tag_of(tmp_path / "a.agentnb", "") != before


def _spoil_an_object(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def _claim_odd_variables(content: bytes) -> bytes:
    return json.dumps(json.loads(content) | {"variables": ["<b>"]}).encode()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: path.write_bytes(b"not a zip, <script>"), "it is not a zip file"),
        (lambda path: path.write_bytes(b""), "it is not a zip file"),
        (lambda path: path.write_bytes(path.read_bytes()[:-200]), "it is not"),
        (lambda path: changed(path, "store/objects", _spoil_an_object).replace(path), "does not match its digest"),
        (
            lambda path: changed(path, "store/objects", _spoil_an_object, sealed=True).replace(path),
            "in it is damaged",
        ),
        (
            lambda path: changed(path, "manifest.json", _claim_odd_variables).replace(path),
            "its manifest is not in its form",
        ),
    ],
    ids=["text", "empty", "cut off", "damaged", "sealed again", "odd manifest"],
)
def test_a_damaged_bundle_has_a_page_with_one_line(
    server: Server, tmp_path: Path, bundle: Path, spoil: Callable[[Path], object], said: str
) -> None:
    # As a copy elsewhere, so that what is changed on the way does not lie in the server's folder.
    copy = tmp_path / "damaged.agentnb"
    shutil.copy(bundle, copy)
    spoil(copy)
    shutil.copy(copy, server.root / "damaged.agentnb")
    page = page_of(server, "damaged.agentnb")
    assert said in page
    assert "Nothing more of it is read." in page
    assert "<section" not in page
    assert "<script" not in page
    assert "every digest matches" not in page


def test_a_process_that_ends_early_leaves_a_page_with_one_line(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_kernel.server.sys.executable", shutil.which("false"))
    page = BundlePages()._make(bundle, "")
    assert b"what it holds cannot be shown" in page


def test_a_bundle_that_takes_too_long_is_given_up(bundle: Path) -> None:
    with pytest.raises(ProblemError, match="takes too long") as raised:
        BundlePages(answer_s=0.001)._make(bundle, "")
    assert raised.value.status == 503


def test_the_server_answers_others_meanwhile_and_makes_one_page_for_all_who_ask(server: Server, bundle: Path) -> None:
    os.utime(bundle)
    with ThreadPoolExecutor(12) as pool:
        pages = [pool.submit(server.get, "/bundles", path="study.agentnb") for _ in range(12)]
        assert server.get("/bundles", path="none.agentnb").status == 404
        assert {page.result().status for page in pages} == {200}
        assert len({page.result().body for page in pages}) == 1


@pytest.mark.parametrize("path", ["", "../study.agentnb", "%00.agentnb"])
def test_what_cannot_be_meant_is_refused(server: Server, path: str) -> None:
    answer = server.send("GET", f"/bundles?path={path}")
    assert (answer.status, line(answer)) == (400, "path names a bundle, relative to the server's root folder")


def test_only_bundles_that_are_there_and_that_jupyter_shows_are_found(server: Server, bundle: Path) -> None:
    (server.root / "notes.txt").write_text("mine")
    (server.root / "folder.agentnb").mkdir(exist_ok=True)
    os.mkfifo(server.root / "waits.agentnb")
    shutil.copy(bundle, server.root / ".hidden.agentnb")
    for path in ("notes.txt", "none.agentnb", "folder.agentnb", "waits.agentnb", ".hidden.agentnb"):
        answer = server.get("/bundles", path=path)
        assert (answer.status, line(answer)) == (404, f"there is no bundle {path!r}")


def test_no_link_leads_out(server: Server, bundle: Path, tmp_path: Path) -> None:
    shutil.copy(bundle, tmp_path / "outside.agentnb")
    (server.root / "link.agentnb").symlink_to(tmp_path / "outside.agentnb")
    (server.root / "way").symlink_to(tmp_path)
    for path in ("link.agentnb", "way/outside.agentnb"):
        assert server.get("/bundles", path=path).status == 403
    (server.root / "inside.agentnb").symlink_to(bundle)
    assert server.get("/bundles", path="inside.agentnb").status == 200


def test_nobody_looks_who_may_not(server: Server, bundle: Path) -> None:
    assert server.send("GET", "/bundles?path=study.agentnb", {}).status == 403


def test_looking_makes_and_trusts_nothing(server: Server, bundle: Path) -> None:
    before = sorted(server.root.iterdir())
    page_of(server, "study.agentnb")
    assert sorted(server.root.iterdir()) == before


def test_the_parameters_are_those_that_are_described() -> None:
    described = SPEC["paths"]["/bundles"]["get"]["parameters"]
    names = [SPEC["components"]["parameters"][one["$ref"].rpartition("/")[2]]["name"] for one in described]
    assert names == ["path", "theme"]
    assert {"get"} == {name for name in ("get", "post", "put", "patch", "delete") if name in vars(BundleHandler)}
