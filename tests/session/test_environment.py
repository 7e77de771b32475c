"""Commits say what they ran on, and what the page looked like, without anybody having to wait for it."""

from __future__ import annotations

import json
import os
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.repository import Kind
from agent_kernel.session import Repository, bind
from agent_kernel.session.environment import EnvironmentWatch, decode_environment, installed_in
from agent_kernel.session.notebooks import NotebookCell, NotebookWatch, decode_notebook
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
        assert installed_in([str(tmp_path), str(tmp_path / "missing")]) == lock

    def test_a_name_comes_before_longer_ones_that_start_with_it(self, tmp_path: Path) -> None:
        for entry in ("jsonschema-4.26.dist-info", "jsonschema_specifications-2025.9.dist-info"):
            (tmp_path / entry).mkdir()
        assert installed_in([str(tmp_path)]) == ["jsonschema==4.26", "jsonschema-specifications==2025.9"]

    def test_what_is_imported_counts(self, tmp_path: Path) -> None:
        for folder, version in (("first", "2.0"), ("second", "1.0")):
            (tmp_path / folder / f"thing-{version}.dist-info").mkdir(parents=True)
        assert installed_in([str(tmp_path / "first"), str(tmp_path / "second")]) == ["thing==2.0"]

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


def write_notebook(path: Path, *sources: str, **more: Any) -> None:
    cells = [
        {"id": f"id{at}", "cell_type": "code", "source": source, "outputs": [{"data": "x" * 1000}], "metadata": {}}
        for at, source in enumerate(sources)
    ]
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
        payload = watch.payload(path)
        assert payload is not None
        page = decode_notebook(payload)
        assert (page.name, page.language, page.saved_ns) == ("study.ipynb", "python", path.stat().st_mtime_ns)
        assert page.cells == (NotebookCell("id0", "code", "x = 1"), NotebookCell("id1", "code", "y = 2\nz = 3"))
        assert len(payload) < 200

    def test_sources_may_be_lists_of_lines_and_ids_may_be_missing(self, path: Path, watch: NotebookWatch) -> None:
        cells = [{"cell_type": "markdown", "source": ["# one\n", "two"], "metadata": {}}]
        write_notebook(path, cells=cells)
        assert decode_notebook(watch.payload(path) or b"").cells == (NotebookCell("", "markdown", "# one\ntwo"),)

    def test_it_is_read_again_when_it_was_saved_and_stays_the_same_object_if_no_cell_changed(
        self, path: Path, watch: NotebookWatch
    ) -> None:
        write_notebook(path, "x = 1")
        first = watch.payload(path)
        touch_later(path)
        assert watch.payload(path) is first
        write_notebook(path, "x = 2")
        touch_later(path)
        assert watch.payload(path) != first

    @pytest.mark.parametrize("content", ["", "{", "[]", '{"cells": 3}', '{"worksheets": []}'])
    def test_what_is_no_notebook_is_not_taken_for_one(self, path: Path, watch: NotebookWatch, content: str) -> None:
        assert watch.payload(path) is None
        path.write_text(content)
        assert watch.payload(path) is None

    def test_a_notebook_that_was_renamed_is_not_known_any_more(self, path: Path, watch: NotebookWatch) -> None:
        write_notebook(path, "x = 1")
        assert watch.payload(path) is not None
        path.rename(path.with_name("other.ipynb"))
        assert watch.payload(path) is None

    def test_commits_refer_to_the_page_as_it_was_saved(self, path: Path) -> None:
        namespace: dict[str, Any] = {}
        with Repository.open(MemoryStore()) as repo:
            session = bind(namespace, repo)
            pages = []
            for number in range(3):
                session.begin_cell(f"x = {number}")
                namespace["x"] = number
                report = session.end_cell()
                assert report is not None
                assert report.record is not None
                pages.append(report.record.notebook)
                write_notebook(path, *map(str, range(number + 1)))
                session.watch_notebook(path)
            session.close()
            assert pages[0] is None
            sizes = [len(decode_notebook(repo.objects.get(Kind.SMALL, page)).cells) for page in pages if page]
            assert repo.verify().is_sound
        assert sizes == [1, 2]
