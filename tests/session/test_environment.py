"""Commits say what they ran on, and what the page looked like, without anybody having to wait for it."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from agent_kernel.repository import Commit, Kind, encode
from agent_kernel.repository.rewrite import Retention
from agent_kernel.session import Repository, Session, bind, provenance
from agent_kernel.session.history import EnvironmentWatch, NotebookWatch
from agent_kernel.session.provenance import (
    NotebookCell,
    NotebookSnapshot,
    decode_environment,
    find_version,
    list_distributions,
    read_notebook,
)
from agent_kernel.storage import MemoryStore


def touch_later(path: Path) -> None:
    """As if time had passed since the last change."""
    stat = path.stat()
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1_000_000_000))


class TestEnvironment:
    def test_the_lock_is_what_importlib_finds(self) -> None:
        parsed = {
            f"{re.sub(r'[-_.]+', '-', found.metadata['Name']).lower()}=={found.version}"
            for found in metadata.distributions()
        }
        assert set(decode_environment(EnvironmentWatch().payload()).packages) == parsed

    @pytest.mark.parametrize(
        ("entry", "lock"),
        [
            ("numpy-2.4.6.dist-info", ["numpy==2.4.6"]),
            ("jupyter_client-8.6.0.dist-info", ["jupyter-client==8.6.0"]),
            ("ruamel.yaml-0.18.dist-info", ["ruamel-yaml==0.18"]),
            ("torch-2.9.0+cu128.dist-info", ["torch==2.9.0+cu128"]),
            ("PyYAML-6.0-py3.11.egg-info", ["pyyaml==6.0"]),
            ("old-1.0-py3.11-linux-x86_64.egg-info", ["old==1.0"]),
            ("~umpy-2.4.6.dist-info.tmp", []),
            ("info", []),
        ],
    )
    def test_the_name_of_the_metadata_says_it_all(self, tmp_path: Path, entry: str, lock: list[str]) -> None:
        (tmp_path / entry).mkdir()
        assert list_distributions([str(tmp_path), str(tmp_path / "missing")]) == lock

    def test_a_name_comes_before_longer_ones_that_start_with_it(self, tmp_path: Path) -> None:
        for entry in ("jsonschema-4.26.dist-info", "jsonschema_specifications-2025.9.dist-info"):
            (tmp_path / entry).mkdir()
        assert list_distributions([str(tmp_path)]) == ["jsonschema==4.26", "jsonschema-specifications==2025.9"]

    def test_what_is_imported_counts(self, tmp_path: Path) -> None:
        for folder, version in (("first", "2.0"), ("second", "1.0")):
            (tmp_path / folder / f"thing-{version}.dist-info").mkdir(parents=True)
        assert list_distributions([str(tmp_path / "first"), str(tmp_path / "second")]) == ["thing==2.0"]

    def test_a_version_is_found_by_any_spelling_of_the_name_and_follows_what_is_installed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
        assert find_version("numpy") == metadata.version("numpy")
        (tmp_path / "Brand.New-1.0.dist-info").mkdir()
        touch_later(tmp_path)
        assert [find_version(name) for name in ("brand_new", "Brand-New", "brand")] == ["1.0", "1.0", ""]
        (tmp_path / "Brand.New-1.0.dist-info").rename(tmp_path / "Brand.New-2.0.dist-info")
        touch_later(tmp_path)
        assert find_version("brand_new") == "2.0"

    def test_installing_something_makes_another_environment(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        site = tmp_path / "site-packages"
        site.mkdir()
        monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
        namespace: dict[str, Any] = {}
        with Repository.open(MemoryStore()) as repo:
            session = bind(namespace, repo)
            ids = []
            for number in range(4):
                if number == 2:
                    (site / "brand_new-1.0.dist-info").mkdir()
                    touch_later(site)
                session.begin_cell(f"x = {number}")
                namespace["x"] = number
                report = session.end_cell()
                assert report is not None
                assert report.record is not None
                ids.append(report.record.environment)
            session.close()
            assert ids[0] == ids[1] != ids[2] == ids[3]
            locks = [set(decode_environment(repo.objects.get(Kind.SMALL, id)).packages) for id in ids if id]
        assert locks[3] - locks[0] == {"brand-new==1.0"}

    def test_another_path_is_another_environment(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        watch = EnvironmentWatch()
        before = watch.payload()
        (tmp_path / "extra-3.dist-info").mkdir()
        monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
        assert "extra==3" in decode_environment(watch.payload()).packages
        monkeypatch.undo()
        assert watch.payload() == before

    def test_nothing_in_it_says_whose_machine_it_is(self) -> None:
        payload = EnvironmentWatch().payload()
        assert str(Path.home()).encode() not in payload
        assert sys.prefix.encode() not in payload


def cells_of(ids: Sequence[str], sources: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {"id": id, "cell_type": "code", "source": source, "outputs": [{"data": "x" * 1000}], "metadata": {}}
        for id, source in zip(ids, sources, strict=True)
    ]


def write_notebook(path: Path, *sources: str, **more: Any) -> None:
    cells = cells_of([f"id{at}" for at in range(len(sources))], sources)
    path.write_text(
        json.dumps({"cells": cells, "nbformat": 4, "metadata": {"language_info": {"name": "python"}}} | more)
    )
    touch_later(path)


class TestNotebook:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "study.ipynb"

    @pytest.fixture
    def watch(self) -> NotebookWatch:
        return NotebookWatch()

    def test_the_cells_are_kept_without_their_outputs(self, path: Path, watch: NotebookWatch) -> None:
        write_notebook(path, "x = 1", "y = 2\nz = 3")
        page = watch.snapshot(path)
        assert page is not None
        assert (page.name, page.language, page.saved_ns) == ("study.ipynb", "python", path.stat().st_mtime_ns)
        assert page.cells == (NotebookCell("id0", "code", "x = 1"), NotebookCell("id1", "code", "y = 2\nz = 3"))
        assert len(encode(page)) < 200

    def test_sources_may_be_lists_of_lines_and_ids_may_be_missing(self, path: Path, watch: NotebookWatch) -> None:
        cells = [{"cell_type": "markdown", "source": ["# one\n", "two"], "metadata": {}}]
        write_notebook(path, cells=cells)
        page = watch.snapshot(path)
        assert page is not None
        assert page.cells == (NotebookCell("", "markdown", "# one\ntwo"),)

    def test_it_is_read_again_when_it_was_saved_and_stays_the_same_object_if_no_cell_changed(
        self, path: Path, watch: NotebookWatch
    ) -> None:
        write_notebook(path, "x = 1")
        first = watch.snapshot(path)
        touch_later(path)
        assert watch.snapshot(path) is first
        write_notebook(path, "x = 2")
        touch_later(path)
        assert watch.snapshot(path) != first

    @pytest.mark.parametrize("content", ["", "{", "[]", '{"cells": 3}', '{"worksheets": []}'])
    def test_what_is_no_notebook_is_not_taken_for_one(self, path: Path, watch: NotebookWatch, content: str) -> None:
        assert watch.snapshot(path) is None
        path.write_text(content)
        assert watch.snapshot(path) is None

    def test_a_notebook_that_was_renamed_is_not_known_any_more(self, path: Path, watch: NotebookWatch) -> None:
        write_notebook(path, "x = 1")
        assert watch.snapshot(path) is not None
        path.rename(path.with_name("other.ipynb"))
        assert watch.snapshot(path) is None

    def test_commits_refer_to_the_page_as_it_was_saved(self, path: Path) -> None:
        with Repository.open(MemoryStore()) as repo:
            session = bind({}, repo)
            pages = []
            for number in range(4):
                pages.append(read_notebook(repo.objects, run(session, f"x = {number}")))
                write_notebook(path, *(["same"] * number))
                session.watch_notebook(path)
            session.close()
            assert repo.verify().is_sound
        assert [page and [cell.source for cell in page.cells] for page in pages] == [None, [], ["same"], ["same"] * 2]

    def test_a_cell_that_changed_costs_about_that_cell_however_many_there_are(self, path: Path) -> None:
        written = {}
        for count in (64, 128, 256):
            store = Counting()
            with Repository.open(store) as repo:
                session = bind({}, repo)
                sources = [f"# cell {at}\n" + "work()\n" * 60 for at in range(count)]
                ids = [f"id{at}" for at in range(count)]
                write_notebook(path, cells=cells_of(ids, sources))
                session.watch_notebook(path)
                run(session, "0")
                store.written.clear()
                for at in range(5, count, count // 8):
                    sources[at] += "more()"
                    sources.insert(at, "pass")
                    ids.insert(at, f"new{at}")
                    write_notebook(path, cells=cells_of(ids, sources))
                    touch_later(path)
                    page = read_notebook(repo.objects, run(session, "0"))
                    assert page is not None
                    assert [cell.source for cell in page.cells] == sources
                session.close()
                assert repo.verify().is_sound
            written[count] = [key[:1] for key in store.written], sum(store.written.values()) / 8
        for kinds, size in written.values():
            assert kinds.count(Kind.CHUNK) <= 3 * 8
            assert kinds.count(Kind.LIST) <= 4 * 8
            assert size < 8_000

    def test_a_page_that_stays_is_not_looked_at_again(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with Repository.open(MemoryStore()) as repo:
            session = bind({}, repo)
            write_notebook(path, *map(str, range(100)))
            session.watch_notebook(path)
            first = run(session, "0")
            with monkeypatch.context() as patch:
                patch.setattr(provenance, "encode", None)
                patch.setattr(provenance, "store_list", None)
                assert run(session, "1").document == first.document is not None
            write_notebook(path, *map(str, range(100)), "more")
            monkeypatch.setattr(provenance, "store_cell", (made := Counted(provenance.store_cell)))
            assert run(session, "2").document != first.document
            assert made.calls == 1
            session.close()

    def test_cells_that_a_collection_took_are_stored_again(self, path: Path) -> None:
        with Repository.open(MemoryStore()) as repo:
            namespace: dict[str, Any] = {}
            session = bind(namespace, repo)
            write_notebook(path, "a", "b")
            run(session, "0")
            session.watch_notebook(path)
            namespace["x"] = 1
            run(session, "x = 1")
            session.undo()
            assert repo.prune(Retention(keep_last=1)).objects_deleted
            page = read_notebook(repo.objects, run(session, "2"))
            session.close()
            assert repo.verify().is_sound
        assert page is not None
        assert [cell.source for cell in page.cells] == ["a", "b"]

    def test_pages_that_earlier_releases_stored_whole_are_read(self) -> None:
        old = NotebookSnapshot("old.ipynb", 7, (NotebookCell("a", "code", "x = 1"),), "python")
        with Repository.open(MemoryStore()) as repo:
            session = bind({}, repo)
            commit = run(session, "0")
            writer = repo.writer()
            id = writer.add(Kind.SMALL, encode(old))
            writer.flush()
            stored: Commit = msgspec.structs.replace(commit, notebook=id)
            assert read_notebook(repo.objects, stored) == old
            session.close()


class Counting(MemoryStore):
    """Notes the objects that are new."""

    def __init__(self) -> None:
        super().__init__()
        self.written: dict[bytes, int] = {}

    def swap(self, expected: Any, new: Any, items: Any = MappingProxyType({})) -> bool:
        self.written |= {
            key: sum(map(len, parts)) for key, parts in items.items() if key[:1] in (Kind.CHUNK, Kind.LIST)
        }
        return super().swap(expected, new, items)


class Counted:
    def __init__(self, wraps: Any) -> None:
        self.wraps, self.calls = wraps, 0

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        return self.wraps(*args)


def run(session: Session, source: str) -> Commit:
    session.begin_cell(source)
    report = session.end_cell()
    assert report is not None
    assert report.record is not None
    return report.record
