"""A bundle that one Python made opens under another: data and source come, what cannot is named, and no bytecode of it runs."""

from __future__ import annotations

import io
import marshal
import pathlib
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from agent_kernel.bundle import opening
from agent_kernel.cli import main
from agent_kernel.errors import LostValueError, UntrustedValueError
from agent_kernel.session import Repository
from agent_kernel.values import definitions, streams
from agent_kernel.values.plain_streams import PlainUnpickler
from agent_kernel.values.restore import arrays
from tests.bundle import python_states
from tests.bundle.bundles import bundle_of
from tests.commands.stores import make_history
from tests.support.elsewhere import other_pythons
from tests.support.notebooks import Notebook

FIXTURES = Path(__file__).parent.parent / "fixtures"
BUNDLE = FIXTURES / "python-3.13.agentnb"
IS_OTHER = sys.version_info[:2] != (3, 13)
OTHERS = other_pythons()
other = pytest.mark.skipif(not IS_OTHER, reason="this is the Python that made the bundle")


@pytest.fixture(autouse=True)
def nobody_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def no_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading bytecode fails, as executing what another version compiled would crash."""

    def loads(_: bytes) -> object:
        raise AssertionError("bytecode of another Python was read")

    monkeypatch.setattr(definitions, "marshal", SimpleNamespace(loads=loads, dumps=marshal.dumps))


@pytest.mark.parametrize("trusts", [False, True], ids=["untrusted", "trusted"])
def test_data_and_source_come_and_what_cannot_is_named(trusts: bool, request: pytest.FixtureRequest) -> None:
    if IS_OTHER or not trusts:
        request.getfixturevalue("no_bytecode")
    assert python_states.problems(BUNDLE, trusts=trusts) == []


@pytest.mark.parametrize("trusts", [False, True], ids=["untrusted", "trusted"])
def test_a_bundle_of_python_3_11_comes_without_its_bytecode(
    trusts: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if sys.version_info[:2] != (3, 11) or not trusts:
        request.getfixturevalue("no_bytecode")
    made = opening.open_bundle(FIXTURES / "bundle-1.agentnb", tmp_path, trusts=trusts)
    with closing(Repository.open(made.store, create=False)) as repo, Notebook(repo) as nb:
        nb.checkout("v1")
        assert nb.look("(numbers, len(rows))") == ([1, 2, 3, 4], 2500)
        if trusts:
            assert nb.look("(double(5), type(point) is Point)") == (10, True)
        else:
            with pytest.raises(LostValueError, match="%agent trust"):
                nb.look("double(5)")


@pytest.mark.usefixtures("no_bytecode")
def test_looking_at_it_reads_no_bytecode_and_fails_in_no_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_history(tmp_path / "mine", "x = 1")
    capsys.readouterr()
    commands: tuple[list[str | Path], ...] = (
        ["show", BUNDLE],
        ["show", BUNDLE, "main:unknown"],
        ["show", BUNDLE, "main:Shape"],
        ["show", BUNDLE, "main:drawn"],
        ["show", BUNDLE, "main:frame"],
        ["show", BUNDLE, "main:counts"],
        ["log", BUNDLE],
        ["verify", BUNDLE],
        ["diff", BUNDLE, FIXTURES / "bundle-1.agentnb"],
        ["deps", BUNDLE, "boxed"],
        ["script", BUNDLE, "boxed"],
        ["notebook", BUNDLE, "main", "-o", "n.ipynb"],
        ["open", BUNDLE, "--as", "opened"],
        ["export", "opened.ipynb", "again.agentnb"],
        ["export", "opened.ipynb", "page.html", "--html"],
        ["import", "mine", BUNDLE, "--trust", "--prefix", "theirs/"],
    )
    for words in commands:
        status = main([*map(str, words)])
        told = capsys.readouterr()
        assert status == 0, (words, told)
        assert "Traceback" not in told.out + told.err
        if words == ["show", BUNDLE]:
            assert "cpython 3.13.0" in told.out
    assert "def first[T](items: list[T])" in (tmp_path / "n.ipynb").read_text(encoding="utf-8")


@other
def test_what_differs_when_it_runs_again_is_named_with_the_other_python(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    main(["reproduce", str(BUNDLE)])
    told = capsys.readouterr()
    assert "Traceback" not in told.out + told.err
    environment = told.out.partition("The environment differs:")[2].splitlines()
    assert environment[1].split()[1:] == ["python", "3.13.0", "→", sys.version.split()[0]]
    failed = f"it was written for Python 3.13.0, and this is {sys.version.split()[0]}"
    assert (failed in told.out) is (sys.version_info < (3, 12))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(not OTHERS, reason="no other interpreter: name some in AGENT_KERNEL_OTHER_PYTHON")
@pytest.mark.parametrize("python", OTHERS)
def test_other_interpreters_open_what_this_one_made_and_the_other_way_round(python: str, tmp_path: Path) -> None:
    def run(interpreter: str, *words: str) -> str:
        done = subprocess.run(
            [interpreter, "-m", "tests.bundle.python_states", *words],
            cwd=FIXTURES.parent.parent, capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    for writer, reader in ((sys.executable, python), (python, sys.executable)):
        bundle = str(tmp_path / f"{len(list(tmp_path.iterdir()))}.agentnb")
        run(writer, "write", bundle)
        assert run(reader, "read", bundle) == ""


# -- another platform: what it would have written, and what it would read


class _WindowsPath:
    """Pickled as a path of Windows is there."""

    def __init__(self, *parts: str) -> None:
        self.parts = parts

    def __reduce__(self) -> tuple[object, ...]:
        return pathlib.WindowsPath, self.parts


@pytest.mark.skipif(sys.platform == "win32", reason="there it is a path of its own")
@pytest.mark.parametrize("kind", [streams.Unpickler, PlainUnpickler])
def test_a_path_of_windows_stays_usable_where_it_can_and_says_what_it_was_elsewhere(kind: type) -> None:
    import pickle

    stream = pickle.dumps([_WindowsPath("data", "rows.csv"), _WindowsPath("C:\\", "data")], 5)
    found = kind(io.BytesIO(stream), iter(()), []).load()
    assert found == [Path("data/rows.csv"), pathlib.PureWindowsPath("C:\\data")]
    assert [type(one) for one in found] == [type(Path()), pathlib.PureWindowsPath]


@pytest.mark.parametrize("trusts", [False, True], ids=["untrusted", "trusted"])
def test_long_doubles_of_another_platform_are_named_and_taken_for_no_other_numbers(
    trusts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not arrays.is_long_double(np.dtype(np.longdouble)):
        pytest.skip("a long double is a double here")
    cell = (
        "import numpy as np\nlong = np.arange(3, dtype=np.longdouble) / 3\none = long[1]\nnumbers = long.astype(float)"
    )
    make_history(tmp_path / "store", cell)
    bundle = bundle_of(tmp_path / "store", tmp_path / "study.agentnb")
    made = opening.open_bundle(bundle, tmp_path, trusts=trusts)
    monkeypatch.setattr(arrays, "long_double_digits", lambda: 112)  # as on ARM
    with closing(Repository.open(made.store, create=False)) as repo, Notebook(repo) as nb:
        nb.checkout()
        for name in ("long", "one"):
            with pytest.raises(LostValueError, match=r"long doubles have 63 binary digits, .* \.astype\(float\)"):
                nb.look(f"{name}.anything")
        assert nb.look("numbers.tolist()") == [0, 1 / 3, 2 / 3]


def test_bytes_of_another_order_are_the_same_numbers(tmp_path: Path) -> None:
    make_history(
        tmp_path / "store",
        "import numpy as np\na = np.arange(1000, dtype='>f8')\nb = a[::2]\nc = np.array(['x'], '>U2')",
    )
    made = opening.open_bundle(bundle_of(tmp_path / "store", tmp_path / "study.agentnb"), tmp_path)
    with closing(Repository.open(made.store, create=False)) as repo, Notebook(repo) as nb:
        nb.checkout()
        assert nb.look("a.dtype.str == '>f8' and a.tolist() == list(range(1000)) and b[1] == 2 and c.tolist() == ['x']")


def test_a_stranger_gives_no_other_token_for_an_object_that_was_not_saved() -> None:
    import pickle

    class Odd:
        def __reduce__(self) -> tuple[object, ...]:
            from agent_kernel.values.restore.objects import live

            return live, (["no text"],)

    with pytest.raises(UntrustedValueError):
        PlainUnpickler(io.BytesIO(pickle.dumps(Odd(), 5)), iter(()), []).load()
