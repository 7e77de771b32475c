"""One file holds a history with its state, opens again, and says the same wherever it is made."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import agent_kernel as ak
from agent_kernel.bundle import commands, exporting, opening
from agent_kernel.cli import main
from agent_kernel.errors import (
    BundleError,
    RefNotFoundError,
    StoreReadOnlyError,
    StoreUnavailableError,
    UntrustedStoreError,
)
from agent_kernel.session import Repository, bind
from agent_kernel.session.provenance import NotebookCell, page_of, read_notebook
from agent_kernel.session.versioned import Versioned
from tests.bundle.bundles import CELLS, bundle_of, make_bundle, members_of
from tests.commands.stores import go_on, make_history
from tests.support.notebooks import Notebook


class Note(ak.Record):
    text: str = ""


class Job(ak.Record):
    plane = "store"
    text: str = ""


SECRET = "sk-abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A bundle that another user made."""
    (tmp_path / "theirs").mkdir()
    with pytest.MonkeyPatch.context() as other:
        other.setenv("XDG_DATA_HOME", str(tmp_path / "their-data"))
        bundle = make_bundle(tmp_path / "theirs")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "my-data"))
    return bundle  # type: ignore[return-value]  # a generator that ends at once would say no more


def load(store: Path, **options: bool) -> dict[str, object]:
    """What a new kernel has after it brought back the state of a store."""
    namespace: dict[str, object] = {}
    with closing(Repository.open(store, create=False)) as repo, closing(bind(namespace, repo)) as session:
        session.checkout(**options)  # type: ignore[arg-type]
    return namespace


class TestWhatItHolds:
    def test_the_same_state_gives_the_same_bytes(self, tmp_path: Path) -> None:
        first = make_bundle(tmp_path)
        again = bundle_of(tmp_path / "study-store", tmp_path / "again.agentnb")
        assert again.read_bytes() == first.read_bytes()

    def test_a_store_that_was_made_of_it_gives_the_same_bytes(self, tmp_path: Path) -> None:
        first = make_bundle(tmp_path)
        made = opening.open_bundle(first, tmp_path, name="opened")
        assert bundle_of(made.store, tmp_path / "again.agentnb").read_bytes() == first.read_bytes()

    def test_records_of_the_branch_go_along_and_those_beside_it_stay(self, tmp_path: Path) -> None:
        with Versioned(tmp_path / "mine") as state:
            for model in (Note, Job):
                state.repo.records(model).put(model(id="a", text=model.__name__))
            state["x"] = 1
            state.commit("with records")
            state.repo.records(Note).put(Note(id="a", text="later"))
            state.commit("one more")
        made = opening.open_bundle(bundle_of(tmp_path / "mine", tmp_path / "mine.agentnb"), tmp_path, name="theirs")
        with closing(Repository.open(made.store)) as repo:
            notes = repo.records(Note)
            assert (notes["a"].text, notes.at("HEAD~1")["a"].text) == ("later", "Note")
            assert repo.records(Job).find() == []

    def test_a_store_that_did_more_besides_gives_the_same_bytes(self, tmp_path: Path) -> None:
        first = make_bundle(tmp_path)
        with closing(Repository.open(tmp_path / "study-store")) as repo:
            repo.create_branch("aside", "HEAD~1")
            repo.create_branch("other", "HEAD~2")
            repo.delete_branch("other", force=True)
        assert (
            bundle_of(tmp_path / "study-store", tmp_path / "again.agentnb", "main").read_bytes() == first.read_bytes()
        )

    def test_it_holds_the_branch_and_the_tags_on_the_way_to_it(self, tmp_path: Path) -> None:
        make_history(tmp_path / "store", "x = 1", "x = 2", "x = 3")
        with closing(Repository.open(tmp_path / "store")) as repo:
            repo.create_tag("two", "HEAD~1")
            repo.create_branch("side", "HEAD~2")
        bundle = bundle_of(tmp_path / "store", tmp_path / "b.agentnb")
        with opening.opened(bundle) as found:
            assert set(found.repo.branches()) == {"main"}
            assert set(found.repo.tags()) == {"two"}

    def test_single_branches_and_tags_are_chosen_by_name(self, tmp_path: Path) -> None:
        make_history(tmp_path / "store", "x = 1", "x = 2", "x = 3")
        with closing(Repository.open(tmp_path / "store")) as repo:
            repo.create_tag("two", "HEAD~1")
            repo.create_branch("side", "HEAD~2")
        bundle = bundle_of(tmp_path / "store", tmp_path / "b.agentnb", "side")
        with opening.opened(bundle) as found:
            opening.verify(found)
            assert set(found.repo.branches()) == {"side"}
            assert found.repo.tags() == {}
            assert len(list(found.repo.log(list(found.repo.branches().values())))) == 1

    def test_a_name_of_no_branch_or_tag_is_refused(self, tmp_path: Path) -> None:
        make_history(tmp_path / "store", "x = 1")
        with pytest.raises(RefNotFoundError):
            bundle_of(tmp_path / "store", tmp_path / "b.agentnb", "nothing")
        assert not (tmp_path / "b.agentnb").exists()

    def test_plain_data_stands_beside_the_store_by_name(self, tmp_path: Path) -> None:
        members = members_of(make_bundle(tmp_path))
        assert json.loads(members["data/rows.json"]) == [1, 2.5, {"k": [None, True, "text"]}]
        (tmp_path / "a.npy").write_bytes(members["data/a.npy"])
        assert np.load(tmp_path / "a.npy")[:2].tolist() == [5.0, 1.0]
        import pyarrow as pa

        table = pa.ipc.open_file(pa.py_buffer(members["data/df.arrow"])).read_all()
        assert table.to_pandas().to_dict("list") == {"x": [1.0, 2.0], "y": ["a", "b"]}

    def test_names_that_are_one_to_a_file_system_get_files_of_their_own(self, tmp_path: Path) -> None:
        members = members_of(make_bundle(tmp_path, "x = 1\nX = 2\ncon = 3\nñandú = 4"))
        held = [json.loads(content) for name, content in members.items() if name.startswith("data/")]
        assert sorted(held) == [1, 2, 3, 4]

    def test_what_cannot_be_told_from_another_value_in_json_stays_in_the_store(self, tmp_path: Path) -> None:
        members = members_of(
            make_bundle(tmp_path, "n = float('nan')\nd = {1: 'one'}\ns = {1}\nloop = []; loop.append(loop)")
        )
        assert not [name for name in members if name.startswith("data/")]


class TestOpening:
    def test_a_trusted_one_brings_everything_back_without_running_a_cell(self, theirs: Path, tmp_path: Path) -> None:
        made = opening.open_bundle(theirs, tmp_path, trusts=True)
        assert made.notebook.is_file()
        found = load(made.store)
        assert found["double"](4) == 8  # type: ignore[operator]
        assert found["a"][0] == 5.0  # type: ignore[index]
        assert found["also"] is found["words"]

    def test_of_one_that_is_not_trusted_plain_data_comes_and_the_rest_is_named(
        self, theirs: Path, tmp_path: Path
    ) -> None:
        made = opening.open_bundle(theirs, tmp_path)
        assert not made.is_trusted
        found = load(made.store)
        assert found["rows"] == [1, 2.5, {"k": [None, True, "text"]}]
        assert found["df"].to_dict("list") == {"x": [1.0, 2.0], "y": ["a", "b"]}  # type: ignore[attr-defined]
        assert found["also"] is found["words"]
        with pytest.raises(Exception, match="a function of the notebook"):
            found["double"](4)  # type: ignore[operator]

    def test_what_waits_for_trust_is_kept_and_comes_once_the_store_is_trusted(
        self, theirs: Path, tmp_path: Path
    ) -> None:
        made = opening.open_bundle(theirs, tmp_path)
        load(made.store)
        go_on_untrusted: dict[str, object] = {"mine": 7}
        with closing(Repository.open(made.store)) as repo, closing(bind(go_on_untrusted, repo)) as session:
            session.commit("mine")
            repo.trust()
            session.checkout()
        assert go_on_untrusted["double"](2) == 4  # type: ignore[operator]

    def test_its_history_is_that_of_the_original(self, theirs: Path, tmp_path: Path) -> None:
        made = opening.open_bundle(theirs, tmp_path)
        with opening.opened(theirs) as bundle, closing(Repository.open(made.store, create=False)) as repo:
            assert repo.branches() == bundle.repo.branches()
            assert repo.verify().is_sound
            assert [commit.cell.source for _, commit in repo.log() if commit.cell] == list(reversed(CELLS))

    def test_work_goes_on_in_it(self, theirs: Path, tmp_path: Path) -> None:
        made = opening.open_bundle(theirs, tmp_path, trusts=True)
        go_on(made.store, "tripled = double(3) * 1.5")
        assert load(made.store)["tripled"] == 9.0

    def test_what_is_there_already_is_left_alone(self, theirs: Path, tmp_path: Path) -> None:
        (tmp_path / "study.ipynb").write_text("mine")
        with pytest.raises(StoreUnavailableError, match="--as"):
            opening.open_bundle(theirs, tmp_path)
        assert (tmp_path / "study.ipynb").read_text() == "mine"
        assert not (tmp_path / ".agent-kernel").exists()

    def test_one_variable_of_a_bundle_is_read_without_opening_the_rest(self, theirs: Path) -> None:
        with closing(Repository.open(theirs, create=False)) as repo:
            assert repo.at("main")["words"] == {"one": 1}

    def test_a_bundle_is_only_read(self, theirs: Path) -> None:
        with closing(Repository.open(theirs, create=False)) as repo, pytest.raises(StoreReadOnlyError):
            repo.create_branch("mine")


class TestImporting:
    def test_its_branches_come_beside_those_that_are_there(self, tmp_path: Path) -> None:
        bundle = make_bundle(tmp_path)
        make_history(tmp_path / "mine", "y = 1")
        with closing(Repository.open(tmp_path / "mine")) as repo:
            before = repo.branches()["main"]
            done = opening.import_bundle(bundle, repo, trusts=True)
            assert done.branches == {"main": "main-2"}
            assert repo.branches()["main"] == before
            assert repo.at("main-2")["words"] == {"one": 1}
            assert repo.verify().is_sound

    def test_the_same_bundle_again_changes_nothing(self, tmp_path: Path) -> None:
        bundle = make_bundle(tmp_path)
        make_history(tmp_path / "mine", "y = 1")
        with closing(Repository.open(tmp_path / "mine")) as repo:
            opening.import_bundle(bundle, repo, trusts=True)
            held = repo.branches()
            assert opening.import_bundle(bundle, repo, trusts=True).branches == {"main": "main-2"}
            assert repo.branches() == held

    def test_a_store_of_mine_takes_in_nothing_that_is_not_trusted(self, theirs: Path, tmp_path: Path) -> None:
        make_history(tmp_path / "mine", "y = 1")
        with closing(Repository.open(tmp_path / "mine")) as repo:
            with pytest.raises(UntrustedStoreError):
                opening.import_bundle(theirs, repo)
            assert set(repo.branches()) == {"main"}


class TestSecrets:
    def test_what_looks_like_a_secret_stays_at_home(self, tmp_path: Path) -> None:
        bundle = make_bundle(
            tmp_path,
            f"api_key = {SECRET!r}\nn = 1",
            f"client = dict(key={SECRET!r})",
            f"def ask():\n    return {SECRET!r}",
            f"call(key={SECRET!r}) if False else None\nm = 2",
            f"texts = ['a'] * 50 + [{SECRET!r}]",
        )
        assert SECRET.encode() not in bundle.read_bytes()
        assert not [name for name, content in members_of(bundle).items() if SECRET.encode() in content]
        with opening.opened(bundle) as found:
            opening.verify(found)
            assert not [code for code in _everything_said(found.repo) if SECRET in code]
            assert set(found.repo.at("main")) == {"n", "m"}
            assert {"api_key", "client", "ask", "texts"} <= set(found.manifest["left_out"])

    def test_the_text_of_the_notebook_stays_beside_a_cell_with_a_secret(self, tmp_path: Path) -> None:
        code = f"api_key = {SECRET!r}"
        page = [
            NotebookCell("t", "markdown", f"# Prices\n\nThe key was {SECRET}."),
            NotebookCell("a", "code", code),
            NotebookCell("b", "code", "n = 1"),
        ]
        with Notebook(Repository.open(tmp_path / "store")) as nb:
            nb.session.tell_page(page_of("prices.ipynb", "python", page))
            nb.run(code)
            nb.run("n = 1")
        nb.repo.close()
        bundle = bundle_of(tmp_path / "store", tmp_path / "b.agentnb")
        assert SECRET.encode() not in b"".join(members_of(bundle).values())
        assert "# Prices" in members_of(bundle)["notebook.ipynb"].decode()
        with opening.opened(bundle) as found:
            opening.verify(found)
            kept = read_notebook(found.repo.objects, found.repo.commit_at(found.repo.branches()["main"]))
            assert kept is not None
            assert [cell.source for cell in kept.cells][1:] == ["api_key = '•••• masked'", "n = 1"]

    def test_the_store_that_it_is_made_from_keeps_all(self, tmp_path: Path) -> None:
        make_bundle(tmp_path, f"api_key = {SECRET!r}", "n = 1")
        assert load(tmp_path / "study-store")["api_key"] == SECRET

    def test_it_goes_along_for_who_insists(self, tmp_path: Path) -> None:
        bundle = make_bundle(tmp_path, f"api_key = {SECRET!r}", keeps_secrets=True)
        with closing(Repository.open(bundle, create=False)) as repo:
            assert repo.at("main")["api_key"] == SECRET

    def test_an_excluded_variable_is_in_no_commit_of_it(self, tmp_path: Path) -> None:
        bundle = make_bundle(
            tmp_path, "patients = ['Ada Lovelace', 'Alan Turing']", "n = len(patients)", exclude=["patients"]
        )
        with opening.opened(bundle) as found:
            opening.verify(found)
            assert not [text for text in _everything_said(found.repo) if "Lovelace" in text]
            assert all("patients" not in found.repo.tree_at(id) for id, _ in found.repo.log())


def _everything_said(repo: Repository) -> Iterator[str]:
    from agent_kernel.bundle.opening import pages

    for keys in pages(repo.store):
        for key in keys:
            yield repo.objects.get(key[:1], key[1:]).decode("utf-8", "replace")  # type: ignore[arg-type]


class TestCommands:
    def test_on_the_command_line(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        make_history(tmp_path / "store", "x = [1, 2]", "y = 2")
        file = str(tmp_path / "s.agentnb")
        assert main(["export", str(tmp_path / "store"), file, "--dry-run"]) == 0
        assert not Path(file).exists()
        assert main(["export", str(tmp_path / "store"), file]) == 0
        assert "2 commits" in capsys.readouterr().out
        assert main(["export", str(tmp_path / "store"), file]) == 2
        assert "--force" in capsys.readouterr().err
        assert main(["log", file]) == 0
        assert "y = 2" in capsys.readouterr().out
        assert main(["open", file, "--folder", str(tmp_path), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["variables"] == 2
        assert main(["open", file, "--folder", str(tmp_path)]) == 1
        assert "--as" in capsys.readouterr().err

    def test_in_python(self, tmp_path: Path) -> None:
        state = Versioned(tmp_path / "v")
        state["x"] = 1
        state.commit("one")
        state.close()
        bundle = bundle_of(tmp_path / "v", tmp_path / "v.agentnb")
        with closing(Repository.open(bundle, create=False)) as repo:
            assert repo.at("HEAD")["x"] == 1


def test_nothing_is_unpickled_where_a_bundle_is_made_or_looked_at(theirs: Path, tmp_path: Path) -> None:
    found: list[object] = []
    armed = [True]
    sys.addaudithook(lambda event, what: found.append(what) if event == "pickle.find_class" and armed else None)
    try:
        made = opening.open_bundle(theirs, tmp_path)
        bundle_of(made.store, tmp_path / "again.agentnb")
        with opening.opened(theirs) as bundle:
            opening.verify(bundle)
        for words in (["log"], ["show"], ["diff"], ["verify"], ["stats"]):
            more = ["HEAD~1", "HEAD"] if words == ["diff"] else []
            assert main([*words, str(theirs), *more]) == 0
    finally:
        armed.clear()
    assert found == []


def test_a_file_that_is_no_bundle_is_refused_in_one_line(tmp_path: Path) -> None:
    for content in (b"", b"PK", b"x" * 1000):
        (tmp_path / "b.agentnb").write_bytes(content)
        with pytest.raises(BundleError) as refused, opening.opened(tmp_path / "b.agentnb"):
            pass
        assert "\n" not in str(refused.value)


def test_a_bundle_of_nothing_is_refused(tmp_path: Path) -> None:
    with closing(Repository.open(tmp_path / "empty")) as repo, pytest.raises(RefNotFoundError):
        exporting.choose(repo, [])


class TestComparing:
    def test_two_bundles_are_compared_at_their_heads(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        make_history(tmp_path / "store", "x = [1, 2]\ny = 'same'")
        first = bundle_of(tmp_path / "store", tmp_path / "a.agentnb")
        go_on(tmp_path / "store", "x.append(3)\nz = 1")
        second = bundle_of(tmp_path / "store", tmp_path / "b.agentnb")
        assert main(["diff", str(first), str(second)]) == 0
        said = capsys.readouterr().out
        assert "x" in said
        assert "+ z" in said
        assert "same" not in said
        assert main(["diff", str(second), str(first)]) == 0
        assert "z" in capsys.readouterr().out

    def test_a_store_is_compared_with_a_bundle_of_another_history(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        make_history(tmp_path / "mine", "x = [1, 2]")
        bundle = make_bundle(tmp_path, "x = [1, 5]")
        assert main(["diff", str(tmp_path / "mine"), str(bundle)]) == 0
        assert "5" in capsys.readouterr().out
        with closing(Repository.open(tmp_path / "mine")) as repo:
            assert set(repo.branches()) == {"main"}


def test_of_several_branches_the_one_that_we_are_on_is_head(tmp_path: Path) -> None:
    make_history(tmp_path / "store", "a = 1")
    with closing(Repository.open(tmp_path / "store")) as repo:
        head = repo.head().commit
        assert head is not None
        for name in ("aside", "zeta"):
            repo.create_branch(name, head)
        assert exporting.choose(repo, [*repo.branches()]).head == "main"
        assert exporting.choose(repo, ["zeta", "aside"]).head == "zeta"


@pytest.mark.parametrize("cell", ["a = np.arange(3_000_000)", "text = ['some words'] * 20_000"])
def test_the_size_that_is_told_before_counts_the_copies_for_other_programs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, cell: str
) -> None:
    """An array that the store holds compressed stands in `data/` as it is."""
    make_history(tmp_path / "s", "import numpy as np", cell)
    path = tmp_path / "b.agentnb"
    assert main(["export", str(tmp_path / "s"), str(path), "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["size"]
    monkeypatch.setattr(commands, "_LARGE", told - 1)
    assert main(["export", str(tmp_path / "s"), str(path)]) == 2
    assert "The file would have" in capsys.readouterr().err
    monkeypatch.setattr(commands, "_LARGE", told)
    assert main(["export", str(tmp_path / "s"), str(path)]) == 0
    assert told <= path.stat().st_size < told + 40_000


def test_what_was_left_out_once_is_told_of_again(tmp_path: Path) -> None:
    """A store that was opened from a bundle, and the bundle itself, say it when they are exported."""
    first = make_bundle(
        tmp_path,
        "rows = [1]",
        f"token = {SECRET!r}",
        "# sk-zyxwvutsrqponmlkjihgfedcba9876543210\nn = 1",
        exclude=["rows"],
    )
    said = json.loads(members_of(first)["manifest.json"])
    assert said["left_out"] == ["rows", "token"]
    assert said["masked"]
    opened = opening.open_bundle(first, tmp_path, name="opened")
    go_on(opened.store, "m = 2")
    for number, source in enumerate((first, opened.store)):
        again = bundle_of(source, tmp_path / f"again-{number}.agentnb")
        told = json.loads(members_of(again)["manifest.json"])
        assert [told[what] for what in ("left_out", "masked", "silent")] == [
            said[what] for what in ("left_out", "masked", "silent")
        ]
    assert (tmp_path / "again-0.agentnb").read_bytes() == first.read_bytes()


def test_an_import_of_a_file_that_is_cut_off_meanwhile_is_refused(
    theirs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verified = opening.verify

    def and_cut(found: opening.OpenBundle, *rest: object) -> None:
        verified(found, *rest)  # type: ignore[arg-type]
        theirs.write_bytes(b"")

    monkeypatch.setattr(opening, "verify", and_cut)
    with closing(Repository.open(tmp_path / "mine")) as mine:
        with pytest.raises(BundleError, match="cut off"):
            opening.import_bundle(theirs, mine, trusts=True)
        assert not mine.branches()


def test_two_bundles_are_told_apart_by_their_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = (make_bundle(tmp_path, f"n = {number}", name=f"study-{number}") for number in range(2))
    assert main(["diff", str(one), str(other)]) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith(f"--- {one}: ")
    assert second.startswith(f"+++ {other}: ")
    assert main(["diff", str(one), str(tmp_path / "gone.agentnb")]) == 1
    assert "there is no such file" in capsys.readouterr().err
    for verb, said in (("diff", "OTHER.agentnb"), ("show", "can be a bundle")):
        main([verb, "--help"])
        assert said in capsys.readouterr().out
    assert main(["trust", str(one)]) == 0
    assert "bundle:" not in capsys.readouterr().out
    main(["show", str(one)])
    assert capsys.readouterr().out.startswith("study-0.agentnb: a bundle of ")
