"""The page that a commit holds: the file, or what the front end has open."""

from __future__ import annotations

import json
import os
from typing import Any

import nbformat
import pytest

from tests.panels.fronts import Front


def save(front: Front, *sources: str) -> None:
    cells = [{"cell_type": "code", "id": f"c{at}", "source": source} for at, source in enumerate(sources)]
    front.notebook.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))


def told(*sources: str) -> dict[str, Any]:
    cells = [{"id": f"c{at}", "type": "code", "source": source} for at, source in enumerate(sources)]
    return {"name": "study.ipynb", "language": "python", "cells": cells}


def page(front: Front, rev: str = "HEAD") -> list[str]:
    found = front.channel().ask("cells", id=rev)
    return [cell["source"] for cell in found["cells"]]


def test_what_the_front_end_tells_is_newer_than_the_file(front: Front) -> None:
    save(front, "old")
    channel = front.channel("agent_kernel.notebook")
    channel.send(told("x = 1", "never run"))
    front.run("x = 1")
    assert page(front) == ["x = 1", "never run"]


def test_a_file_that_was_saved_after_it_counts_again(front: Front) -> None:
    front.channel("agent_kernel.notebook").send(told("told"))
    front.run("x = 1")
    save(front, "saved")
    later = front.notebook.stat().st_mtime_ns + 10**9
    os.utime(front.notebook, ns=(later, later))
    front.run("x = 2")
    assert page(front) == ["saved"]
    front.channel("agent_kernel.notebook").send(told("told again"))
    front.run("x = 3")
    assert page(front) == ["saved"], "the file is newer"


def test_the_same_page_is_stored_once(front: Front) -> None:
    channel = front.channel("agent_kernel.notebook")
    channel.send(told("x = 1"))
    front.run("x = 1")
    channel.send(told("x = 1"))
    front.run("x = 2")
    commits = [commit for _, commit in front.extension.notebook.scope().repo.log()]
    assert commits[0].document == commits[1].document is not None


def test_it_is_kept_for_the_store_that_is_bound_next(front: Front) -> None:
    front.run("y = 1")
    front.channel("agent_kernel.notebook").send(told("x = 1"))
    front.run("%agent bind elsewhere")
    front.run("x = 1")
    assert page(front) == ["x = 1"]


def test_what_is_no_page_or_too_large_is_left_out(front: Front, caplog: Any) -> None:
    channel = front.channel("agent_kernel.notebook")
    channel.send(told("kept"))
    channel.send({"cells": "none"})
    channel.send(told("x" * (65 << 20)))
    front.run("x = 1")
    assert page(front) == ["kept"]
    assert len(caplog.records) == 2


def test_the_page_is_written_to_a_file_of_its_own(front: Front) -> None:
    save(front, "x = 1")
    channel = front.channel("agent_kernel.notebook")
    channel.send(told("x = 1", "text = 2"))
    front.run("x = 1")
    side = front.channel()
    id = side.ask("open")["head"]["id"]
    assert side.ask("write_notebook", id=id)["done"] == f"Wrote study@{id[:8]}.ipynb beside the notebook."
    written = json.loads((front.folder / f"study@{id[:8]}.ipynb").read_text())
    assert ["".join(cell["source"]) for cell in written["cells"]] == ["x = 1", "text = 2"]
    nbformat.validate(written)
    assert (written["nbformat"], written["nbformat_minor"]) == (4, 5)


@pytest.mark.parametrize("ids", [("", ""), ("ok", "with a space"), ("ok", "a" * 65), ("same", "same")])
def test_where_the_cells_have_no_ids_or_odd_ones_the_file_is_of_the_format_without(
    front: Front, ids: tuple[str, ...]
) -> None:
    cells = [{"id": id, "type": "code", "source": f"x = {at}"} for at, id in enumerate(ids)]
    front.channel("agent_kernel.notebook").send({**told(), "cells": cells})
    front.run("x = 1")
    side = front.channel()
    id = side.ask("open")["head"]["id"]
    side.ask("write_notebook", id=id)
    written = json.loads((front.folder / f"study@{id[:8]}.ipynb").read_text())
    nbformat.validate(written)
    assert written["nbformat_minor"] == 4
    assert [cell["source"] for cell in written["cells"]] == [["x = 0"], ["x = 1"]]


def test_a_file_that_says_something_else_is_not_overwritten(front: Front) -> None:
    front.channel("agent_kernel.notebook").send(told("x = 1"))
    front.run("x = 1")
    side = front.channel()
    id = side.ask("open")["head"]["id"]
    side.ask("write_notebook", id=id)
    first = front.folder / f"study@{id[:8]}.ipynb"
    assert side.ask("write_notebook", id=id)["done"].startswith(f"Wrote {first.name}")
    first.write_text("mine")
    assert side.ask("write_notebook", id=id)["done"].startswith(f"Wrote study@{id[:8]}-2.ipynb")
    assert first.read_text() == "mine"


def test_the_name_of_a_stored_page_leads_to_no_other_folder(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    aside = front.folder / "aside"
    aside.mkdir()
    front.channel("agent_kernel.notebook").send({**told("x = 1"), "name": f"{aside}/../aside/study.ipynb"})
    front.run("x = 1")
    monkeypatch.delenv("JPY_SESSION_NAME")
    side = front.channel()
    id = side.ask("open")["head"]["id"]
    assert side.ask("write_notebook", id=id)["done"] == f"Wrote study@{id[:8]}.ipynb in {front.folder}."
    assert not list(aside.iterdir())


def test_a_commit_without_a_page_says_so(front: Front) -> None:
    front.run("x = 1")
    side = front.channel()
    assert "no page of the notebook was stored with [1]" in side.ask("write_notebook", id="HEAD")["message"]


def test_a_checkout_of_the_code_too_brings_the_page_along(front: Front) -> None:
    channel = front.channel("agent_kernel.notebook")
    channel.send(told("x = 1"))
    front.run("x = 1")
    channel.send(told("x = 1", "x = 2"))
    front.run("x = 2")
    panel = front.panel()
    done = panel.ask("checkout", to="HEAD~1", what="both")
    assert [cell["source"] for cell in done["cells"]["cells"]] == ["x = 1"]
