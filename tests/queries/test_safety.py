"""Looking at a store runs nothing of whoever made it, shows no secret, and hands on no control character."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_kernel.errors import (
    AgentKernelError,
    AmbiguousRefError,
    DamagedObjectError,
    MergeConflictError,
    NameNotFoundError,
    NotAStoreError,
    RefNotFoundError,
    RequestError,
    StoreUnavailableError,
    TooLargeError,
)
from agent_kernel.queries.reader import Reader, failure
from agent_kernel.queries.text_diff import diff_lines
from agent_kernel.repository import Blob, Entry, Manifest, Output, Outputs, Representation, encode
from agent_kernel.session import Repository
from agent_kernel.storage import MemoryStore
from agent_kernel.values import previews
from tests.commands.stores import canary, make_history
from tests.queries.histories import notebook
from tests.support.repositories import commit_values

KEY = "ghp_" + "x" * 36
HOSTILE = "\x1b[2J\x1b]0;title\x07\u202eright\u2066"


def everything(reader: Reader) -> Iterator[tuple[str, Any]]:
    """Every question there is, of every commit and every variable."""
    opening = reader.ask("open", {"n": 500})
    yield "open", opening
    rows = [row for row in opening["page"]["rows"] if row["kind"] == "commit"]
    folds = [row["id"] for row in opening["page"]["rows"] if row["kind"] == "fold"]
    yield "rows", reader.ask("rows", {"n": 500, "unfolded": folds, "text": "is:named"})
    yield "branches", reader.ask("branches", {})
    for row in rows:
        id = row["id"]
        yield "locate", reader.ask("locate", {"id": id})
        details = reader.ask("commit", {"id": id})
        yield "commit", details
        for op in ("code", "outputs", "environment"):
            yield op, reader.ask(op, {"id": id})
        yield "compare", reader.ask("compare", {"a": id, "b": rows[0]["id"]})
        for op in ("checkout", "rollback", "merge"):
            yield "plan", reader.ask("plan", {"op": op, "to": id})
        for change in details["changes"]:
            answer = reader.ask("variable", {"id": id, "name": change["name"]})
            assert answer["face"] or answer["lines"] or answer["note"] or not change["opens"], change
            yield "variable", answer


def texts(found: object) -> Iterator[str]:
    if isinstance(found, str):
        yield found
    elif isinstance(found, dict):
        for key, value in found.items():
            yield from texts(key)
            yield from texts(value)
    elif isinstance(found, list):
        for one in found:
            yield from texts(one)


def test_nothing_stored_is_loaded_or_run(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    make_history(
        tmp_path / "store",
        canary(ran) + "text = 'x'",
        "it = Canary()\nheld = {'a': it}",
        "it.x = 1",
        "Canary.armed = True",
    )
    repo = Repository.open(tmp_path / "store", create=False)
    asked = [op for op, _ in everything(Reader(repo))]
    Reader(repo).represent_history()
    repo.close()
    assert not ran.exists()
    assert {"variable", "compare", "plan", "outputs"} <= set(asked)


def test_a_pickle_that_would_do_harm_is_only_described(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    stream = f"\x80\x05cos\nsystem\n\x8c{chr(len(str(ran)) + 6)}touch {ran}\x85R.".encode("latin-1")
    manifest = encode(Manifest(blobs=(Blob(len(stream), stream),), size=len(stream)))
    summary = previews.encode(previews.Preview("object", "posix.system"))
    repo = Repository.open(MemoryStore())
    commit_values(repo, {"x": Entry(manifest, preview=summary)})
    commit_values(repo, {"x": Entry(manifest + b"", preview=summary, slot=1)})
    for op, answer in everything(Reader(repo, "s")):
        assert answer is not None, op
    assert not ran.exists()


@pytest.mark.parametrize("kind", ["array", "frame", "series", "mapping", "text", "tensor", "object", "scalar", "new"])
@pytest.mark.parametrize(
    "stream", [b"", b"\x80\x05.", b"\x80\x05K\x01.", b"garbage", b"\x80\x05]" + b"(" * 5000 + b"."]
)
def test_what_nobodys_pickler_wrote_is_still_answered(kind: str, stream: bytes) -> None:
    repo = Repository.open(MemoryStore())
    for number in range(2):
        manifest = encode(Manifest(blobs=(Blob(len(stream), stream), Blob(3, b"abc")), size=number))
        summary = previews.Preview(kind, "x.Y", shape=(10**12, -1)[: number + 1], columns=(previews.Column("c", "d"),))
        commit_values(repo, {"x": Entry(manifest, preview=previews.encode(summary))})
    for op, answer in everything(Reader(repo, "s")):
        assert answer is not None, op
    answer = Reader(repo, "s").ask("variable", {"id": "HEAD", "name": "x"})
    assert answer["how"] == "~"


def named(module: str, name: str) -> bytes:
    return b"".join(b"\x8c" + bytes([len(text)]) + text.encode() for text in (module, name)) + b"\x93"


def column_of_objects(shape: tuple[int, int], *, in_series: bool) -> bytes:
    """The stream of a long array of objects, or of a series that holds one."""
    sizes = b"(" + b"".join(b"J" + size.to_bytes(4, "little", signed=True) for size in shape) + b"t"
    array = named("agent_kernel.values.restore.arrays", "object_column") + b"(\x97\x97" + sizes + b"\x8c\x01C\x88tR"
    if in_series:
        block = named("pandas._libs.internals", "_unpickle_block") + b"(" + array + b"NK\x01tR"
        array = named("pandas.core.internals.managers", "SingleBlockManager") + b"(" + block + b"NtR"
    return b"\x80\x05" + array + b"."


def test_the_objects_of_a_column_that_nobodys_pickler_wrote_are_only_described(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    harm = named("posix", "system") + b"\x8c" + bytes([len(f"touch {ran}")]) + f"touch {ran}".encode() + b"\x85R"
    nested = b"K\x01" + b"\x94h\x00\x86" + b"".join(b"\x94h" + bytes([at]) + b"\x86" for at in range(1, 90))
    circle = b"]\x94(h\x00e"
    deep = b")" + b"\x85" * 30_000
    number = b"\x8b" + (1_000_000).to_bytes(4, "little") + b"\x7f" * 1_000_000
    held = [b"", b"x", b"\x80\x05N.", b"\x80\x05" + b"]" * 3]
    held += [b"\x80\x05](" + item + end + b"e." for item in (harm, nested, circle, deep, number) for end in (b"", b"N")]
    repo = Repository.open(MemoryStore())
    begun = time.thread_time()
    # Codes of what is not there, and sizes that nothing has, of two plain atoms.
    cases = [(codes, (1, 2), atoms) for codes in (b"", b"\x00\xff") for atoms in held]
    sizes = [(2, 1), (-1, -2), (1, 2**31 - 1), (2**31 - 1, 2**31 - 1), (0, 0)]
    cases += [(b"", shape, b"\x80\x05](K\x01Ne.") for shape in sizes]
    for in_series in (False, True):
        for codes, shape, atoms in cases:
            stream = column_of_objects(shape, in_series=in_series)
            summary = previews.Preview("series" if in_series else "array", "x.Y", shape=shape)
            blobs = tuple(Blob(len(part), part) for part in (stream, codes, atoms))
            manifest = encode(Manifest(blobs=blobs, size=len(stream)))
            commit_values(repo, {"x": Entry(manifest, preview=previews.encode(summary))})
            assert Reader(repo, "s").ask("variable", {"id": "HEAD", "name": "x"}) is not None
    assert time.thread_time() - begun < 20
    assert not ran.exists()


def test_a_summary_that_cannot_be_read_is_said_to_be_none() -> None:
    repo = Repository.open(MemoryStore())
    commit_values(repo, {"x": "one"})
    (change,) = Reader(repo, "s").ask("commit", {"id": "HEAD"})["changes"]
    assert change["new"] == "not described"


def test_what_looks_like_a_secret_is_masked_everywhere(tmp_path: Path) -> None:
    said = Output(kind="stream", name="stdout", text=f"{KEY}\ncorrect horse\n")
    html = Representation("text/html", "text", 99, f"<b>{KEY}</b> correct horse")
    error = Output(kind="error", name="E", text=KEY, traceback=(KEY, "correct horse"))
    shown = Outputs(version=1, outputs=(said, Output(kind="display_data", representations=(html,)), error))
    with notebook() as nb:
        nb.run(
            f"password = 'correct horse'\nd = {{'a': '{KEY}', 'token': 'hunter2hunter2'}}\ntext = '{KEY}'", shows=shown
        )
        nb.run(f"d['a'] = 1\ntext = 'key {KEY} end'", raises=ValueError(f"bad {KEY}"))
        nb.session.commit(f"with {KEY}")
        nb.namespace["y"] = 1
        nb.session.commit(f"with {KEY}")
        for op, answer in [*everything(nb.reader), ("static", Reader(nb.repo, nb.session.id).represent_history())]:
            for text in texts(answer):
                assert KEY not in text, op
                assert "correct horse" not in text, op
                assert "hunter2" not in text, op


def test_a_table_shows_no_secret_that_a_label_names_or_is() -> None:
    token = f"ghp_{'a' * 36}"
    with notebook() as nb:
        nb.run(
            "import pandas as pd\nby_row = pd.Series(['hunter2hunter', 'b'], index=['password', 'b'])\n"
            f"by_column = pd.DataFrame({{'ghp' + '_{token[4:]}': [1, 2]}})"
        )
        nb.run("by_row['b'] = 'c'; by_column.iloc[0, 0] = 7")
        for name in ("by_row", "by_column"):
            shown = nb.ask("variable", id="HEAD", name=name)
            assert shown["face"]["kind"] == "table"
            text = str(shown)
            assert "hunter2" not in text
            assert token not in text
            assert "masked" in text


SERIES = """
import pandas as pd
number, text = 313.3725 * 100, "hunter" + str(2) * 7
named = pd.Series([number, 2.0], name="password")
by_levels = pd.Series([number, 2.0], name=("db", "password"))
numbers = pd.Series([number, 2.0, 3.0], index=["password", "b", "c"])
late = pd.Series([2.0] * 50 + [number], index=[f"r{n}" for n in range(50)] + ["api_key"])
texts = pd.Series([text, "b"], index=["password", "b"])
levels = pd.Series([number, 2.0], index=pd.MultiIndex.from_tuples([("db", "password"), ("db", "b")]))
record = pd.Series({"name": "password", "value": text})
frame = pd.DataFrame({"value": [number, 2.0]}, index=["password", "b"])
"""


def test_no_face_of_a_series_shows_what_its_name_or_a_label_says_is_a_secret() -> None:
    with notebook() as nb:
        nb.run(SERIES)
        names = [name for name in nb.namespace if name not in ("pd", "number", "text", "__builtins__")]
        nb.run("\n".join(f"{name} = {name}.copy(); {name}.iloc[1] = {name}.iloc[1] * 2" for name in names))
        answers = [nb.ask("commit", id=at)["changes"] for at in ("HEAD", "HEAD~1")]
        answers = [[one for one in changes if one["name"] in names] for changes in answers]
        answers += [nb.ask("variable", id=at, name=name) for at in ("HEAD", "HEAD~1") for name in names]
        for text in (text for answer in answers for text in texts(answer)):
            assert "hunter2" not in text
            assert "31337" not in text.replace(",", "")
            assert "3.13" not in text  # as 3.134e+04
        shown = {name: nb.ask("variable", id="HEAD", name=name) for name in names}
        assert shown["named"]["face"] is shown["by_levels"]["face"] is None
        assert "secret" in shown["named"]["note"]
        opens = {change["name"]: change["opens"] for change in nb.ask("commit", id="HEAD")["changes"]}
        assert not opens["named"]
        assert shown["numbers"]["face"]["kind"] == shown["late"]["face"]["kind"] == "table"


def test_no_control_character_is_handed_on(tmp_path: Path) -> None:
    def dirty(mime: str) -> Output:
        return Output(kind="display_data", representations=(Representation(mime, "text", 9, HOSTILE),))

    mimes = ("text/plain", "text/html", "image/svg+xml", "application/json", f"text/{HOSTILE}")
    shown = Outputs(version=1, outputs=(Output(kind="stream", text=HOSTILE), *map(dirty, mimes)))
    with notebook() as nb:
        nb.run(f"# {HOSTILE}\nd = {{{HOSTILE!r}: {HOSTILE!r}}}\ntext = {HOSTILE!r}", shows=shown, id=HOSTILE)
        nb.run(f"text = 'x' + {HOSTILE!r}", raises=ValueError(HOSTILE))
        nb.namespace[f"name{HOSTILE}"] = 1
        nb.session.commit(HOSTILE + " said")
        for op, answer in [*everything(nb.reader), ("static", Reader(nb.repo, nb.session.id).represent_history())]:
            for text in texts(answer):
                assert text.replace("\n", "").isprintable(), (op, text)


def test_no_answer_is_longer_than_the_panel_can_bear() -> None:
    with notebook() as nb:
        nb.run(
            "\n".join(f"{'n' * 300}{n} = '{'v' * 3000}'" for n in range(60))
            + f"\nd = {{str(n) * 200: 'x' * 500 for n in range(300)}}\ntext = 'line\\n' * 50_000\n# {'long ' * 20_000}"
        )
        nb.run("text += 'x'\nd['y'] = 1")
        for op, answer in everything(nb.reader):
            assert len(msgspec.json.encode(answer)) < 1_000_000, op
        assert len(msgspec.json.encode(nb.ask("open", n=500))) < 50_000


@pytest.mark.parametrize("row", ["0, 1, ", "a b "])
def test_looking_for_what_changed_within_lines_has_an_end(row: str) -> None:
    rows = [f"{at} {row * 120}" for at in range(90)]
    begun = time.thread_time()
    found = diff_lines("\n".join(rows), "\n".join(line.replace("1", "2").replace("b", "c") for line in rows))
    assert time.thread_time() - begun < 10, "it took minutes"
    assert [line.how for line in found].count("+") == len(rows)


def test_looking_for_the_lines_that_are_the_same_has_an_end() -> None:
    old, new = ("\n".join(str(at * by % 7 % 2) for at in range(2_000)) for by in (3, 5))
    begun = time.thread_time()
    found = diff_lines(old, new)
    assert time.thread_time() - begun < 10, "it took minutes"
    assert {"+", "-"} <= {line.how for line in found}


def zeros_and_ones(seed: int) -> str:
    chosen = random.Random(seed)
    return "\n".join("    [" + ", ".join(chosen.choice("01") for _ in range(30)) + "]," for _ in range(22))


def test_looking_for_the_last_run_of_a_cell_without_an_id_has_an_end() -> None:
    with notebook() as nb:
        for number in range(1, 62):
            nb.session.begin_cell(f"x = [\n{zeros_and_ones(number)}\n]", number=number)
            nb.namespace["x"] = number
            nb.session.end_cell()
        for op in ("code", "commit"):
            begun = time.thread_time()
            nb.ask(op, id="HEAD")
            assert time.thread_time() - begun < 6, "it took 12 seconds"


def test_all_cells_of_a_comparison_share_what_may_be_spent_and_each_has_its_lines() -> None:
    with notebook() as nb:
        nb.run("y = 0")
        tips: list[str] = []
        for side in range(2):
            if side:
                nb.session.checkout("HEAD~40")
            rows = "\n".join(f"{at} {'0, 1, ' if side else '0, 2, '}" * 80 for at in range(90))
            for number in range(40):
                nb.session.begin_cell(f"same = 1\n{rows}", cell_id=f"c{number}")
                nb.namespace["x"] = 100 * side + number
                nb.session.end_cell()
            tips.append(nb.rows()[0]["id"])
        begun = time.thread_time()
        compared = nb.ask("compare", a=tips[0], b=tips[1])
        assert time.thread_time() - begun < 6, "each took up to two seconds"
        assert len(compared["code"]) == 40
        for cell in compared["code"]:
            assert cell["lines"][0] == {"how": " ", "old": 1, "new": 1, "words": [["same = 1", False]]}


def test_pictures_come_as_data_until_the_answer_is_full() -> None:
    picture = b"\x89" * 600_000
    face = Representation("image/png", "bytes", len(picture), blob=Blob(len(picture), picture))
    plain = Representation("text/plain", "text", 6, "<Figure size 640x480>")
    one = Output(kind="display_data", representations=(plain, face))
    with notebook() as nb:
        nb.run("x = 1", shows=Outputs(version=1, outputs=(one, one, one)))
        shown = nb.ask("outputs", id="HEAD")
    assert [bool(output["uri"]) for output in shown] == [True, True, False]
    assert shown[0]["uri"].startswith("data:image/png;base64,iYmJ")
    assert shown[0]["text"] == "<Figure size 640x480>"
    assert (shown[2]["kind"], shown[2]["size"], shown[2]["note"]) == ("image", 600_000, "too large to be shown here")


def test_each_kind_of_output_says_what_it_is() -> None:
    outputs = (
        Output(kind="stream", name="stderr", text="warned\n"),
        Output(kind="gap", size=99),
        Output(kind="display_data", representations=(Representation("text/html", "text", 5_000_000),)),
        Output(
            kind="display_data",
            representations=(
                Representation("text/plain", "text", 1, "a"),
                Representation("text/html", "text", 8, "<b>x</b>"),
            ),
        ),
        Output(kind="display_data", representations=(Representation("image/svg+xml", "text", 6, "<svg/>"),)),
        Output(kind="display_data", representations=(Representation("application/json", "json", 2, "{}"),)),
        Output(kind="display_data", representations=(Representation("application/x-odd", "text", 3, "odd"),)),
        Output(
            kind="update_display_data",
            representations=(Representation("text/plain", "text", 4, "done"),),
            display="bar",
        ),
        Output(kind="stream", text="late", under=2),
        Output(kind="error", name="ValueError", text="no", traceback=("Traceback", "ValueError: no")),
    )
    with notebook() as nb:
        nb.run("x = 1", shows=Outputs(version=1, outputs=outputs))
        shown = nb.ask("outputs", id="HEAD")
        assert nb.ask("commit", id="HEAD")["outputs"] == len(outputs)
    assert [(one["kind"], one["text"], one["note"]) for one in shown] == [
        ("text", "warned", "stderr"),
        ("gap", "", "left out when it was shown: too large"),
        ("html", "", "left out when it was shown: too large"),
        ("html", "<b>x</b>", ""),
        ("svg", "<svg/>", ""),
        ("json", "{}", ""),
        ("gap", "", "application/x-odd cannot be shown here"),
        ("text", "done", "in place of what an earlier cell showed"),
        ("text", "late", "under [2]"),
        ("error", "Traceback\nValueError: no", ""),
    ]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RefNotFoundError("x"), "not_found"),
        (NameNotFoundError("x", "[7]"), "not_found"),
        (AmbiguousRefError("ab", ("abc", "abd")), "ambiguous"),
        (RequestError("rows", "n is too large"), "refused"),
        (MergeConflictError((("x", "int 1", "int 2"),)), "refused"),
        (DamagedObjectError("commit", "0" * 64), "damaged"),
        (TooLargeError("the page", 3, 2), "too_large"),
        (NotAStoreError("/x"), "gone"),
        (StoreUnavailableError("/x", "its folder is gone"), "gone"),
        (ZeroDivisionError("internal"), "failed"),
    ],
)
def test_a_failure_is_a_word_for_programs_and_a_line_for_people(error: Exception, code: str) -> None:
    told = failure(error)
    assert told["code"] == code
    assert told["message"]
    assert "\n" not in told["message"]
    assert "internal" not in told["message"]  # nobody said it on purpose
    if isinstance(error, AgentKernelError):
        assert told["message"] == " ".join(str(error).split())


def test_a_failure_shows_no_secret() -> None:
    assert KEY not in failure(RefNotFoundError(KEY))["message"]
    assert failure(RefNotFoundError(f"a{HOSTILE}b"))["message"].isprintable()


def test_a_damaged_commit_is_named_as_such(tmp_path: Path) -> None:
    repo = Repository.open(MemoryStore())
    ids = [commit_values(repo, {"x": str(n)}) for n in range(3)]
    repo.store.delete_many([b"c" + ids[1]])
    repo = Repository(repo.store)
    with pytest.raises(DamagedObjectError) as caught:
        Reader(repo, "s").ask("open", {"n": 5})
    assert failure(caught.value)["code"] == "damaged"


@pytest.mark.parametrize(
    "made", sorted((Path(__file__).parents[1] / "fixtures").glob("store-*")), ids=lambda path: path.name
)
def test_a_store_of_an_earlier_format_that_nobody_trusts_can_be_looked_through(made: Path, tmp_path: Path) -> None:
    with Repository.open(shutil.copytree(made, tmp_path / "store"), create=False) as repo:
        answers = [answer for _, answer in everything(Reader(repo))]
        assert len(answers) > 20
        assert "made by someone else" in str(answers)
        assert Reader(repo).represent_history()["text/plain"]
