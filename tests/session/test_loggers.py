"""Loggers go on with the handlers that variables hold, and come back with what the notebook set of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_kernel.session import Repository
from agent_kernel.storage import MemoryStore
from tests.support.elsewhere import Sheet, elsewhere
from tests.support.notebooks import Notebook, names_changed, rev

NAMES = ("ak.study", "ak.study.part", "matplotlib", "")


def forget() -> None:
    """Leave loggers as those of a fresh process are."""
    for name in NAMES:
        logger = logging.getLogger(name)
        for handler in [found for found in logger.handlers if "pytest" not in type(found).__module__]:
            logger.removeHandler(handler)
        logger.filters.clear()
        logger.setLevel(logging.WARNING if not name else logging.NOTSET)
        logger.propagate, logger.disabled = True, False


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    forget()
    yield
    forget()


START = "import io, logging\nbuf = io.StringIO(); h = logging.StreamHandler(buf)"
LOGGERS: dict[str, str] = {  # how a handler is given to a logger, which may or may not have a variable
    "a variable": "lg = logging.getLogger('ak.study'); lg.addHandler(h)",
    "no variable": "logging.getLogger('ak.study').addHandler(h)",
    "in a container": "made = {'log': logging.getLogger('ak.study')}; made['log'].addHandler(h)",
    "an attribute": "class C: log = logging.getLogger('ak.study')\nC.log.addHandler(h)",
    "of a library": "import matplotlib; logging.getLogger('matplotlib').addHandler(h)",
    "the root": "logging.getLogger().addHandler(h)",
    "the root, with a variable": "root = logging.getLogger(); root.addHandler(h)",
    "a child": "logging.getLogger('ak.study').addHandler(h); lg = logging.getLogger('ak.study.part')",
}
LOG = {"of a library": "logging.getLogger('matplotlib')", "a child": "lg"}


@pytest.mark.parametrize("what", LOGGERS)
def test_what_is_logged_after_a_checkout_goes_where_the_variables_say(what: str) -> None:
    log = LOG.get(what, "logging.getLogger('ak.study')")
    with Notebook() as nb:
        nb.run(START)
        nb.run(LOGGERS[what])
        early = nb.run(f"{log}.error('one')")
        assert nb.session.status().lost == ()
        later = nb.run(f"{log}.error('two')")
        for _ in range(2):
            nb.checkout(early)
            assert nb.look("(buf.getvalue(), h.stream is buf)") == ("one\n", True)
            nb.run(f"{log}.error('three')")
            assert nb.look("buf.getvalue()") == "one\nthree\n"
            nb.checkout(later)
            nb.run(f"{log}.error('four')")
            assert nb.look("buf.getvalue()") == "one\ntwo\nfour\n"


def test_a_handler_that_is_not_there_yet_gets_nothing() -> None:
    with Notebook() as nb:
        before = nb.run("import io, logging\nlg = logging.getLogger('ak.study'); lg.propagate = False")
        nb.run("buf = io.StringIO(); h = logging.StreamHandler(buf); lg.addHandler(h)")
        after = nb.run("logging.getLogger('ak.study.part').addHandler(h)")
        nb.checkout(before)
        assert nb.look("(lg.handlers, logging.getLogger('ak.study.part').handlers)") == ([], [])
        nb.checkout(after)
        assert nb.look("lg.handlers == [h] and not lg.propagate")


SET: dict[str, tuple[str, str]] = {  # what a notebook sets of a logger, and what shows it
    "the level": ("lg.setLevel('DEBUG')", "lg.level == 10 and lg.isEnabledFor(10)"),
    "whether others get the records": ("lg.propagate = False", "lg.propagate is False"),
    "whether it works": ("lg.disabled = True", "lg.disabled is True"),
    "a handler without a name": (
        "buf = io.StringIO(); lg.addHandler(logging.StreamHandler(buf))",
        "lg.handlers[0].stream is buf",
    ),
    "its format": (
        "h = logging.StreamHandler(io.StringIO()); h.setFormatter(logging.Formatter('%(message)s!')); lg.addHandler(h)",
        "lg.handlers == [h] and h.formatter._fmt == '%(message)s!'",
    ),
    "a class of one's own": (
        (
            "class Keep(logging.Handler):\n    def __init__(self, rows):\n        super().__init__(); self.rows = rows\n"
            "    def emit(self, record): self.rows.append(record.getMessage())\nrows = []; lg.addHandler(Keep(rows))"
        ),
        "(lg.error('x'), lg.handlers[0].rows is rows, type(lg.handlers[0]) is Keep, rows.pop())[1:] == (True, True, 'x')",
    ),
    "a filter": (
        "def only(record): return 'x' in record.getMessage()\nlg.addFilter(only)",
        "lg.filters == [only]",
    ),
    "several": (
        "a, b = logging.NullHandler(), logging.StreamHandler(); b.setLevel(30); lg.addHandler(a); lg.addHandler(b)",
        "lg.handlers == [a, b] and b.level == 30 and b.stream is sys.stderr",
    ),
    "one that has a name": (
        "h = logging.NullHandler(); h.set_name('ak-null'); lg.addHandler(h)",
        "logging._handlers['ak-null'] is h and lg.handlers == [h]",
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("logger", ["'ak.study'", ""], ids=["own", "root"])
@pytest.mark.parametrize(("sets", "shows"), SET.values(), ids=SET)
def test_what_a_notebook_sets_comes_back_also_after_a_restart(sets: str, shows: str, logger: str) -> None:
    store = MemoryStore()
    theirs = list(logging.root.handlers)
    if not logger:
        shows = shows.replace("lg.handlers", f"lg.handlers[{len(theirs)}:]").replace("[0].", "[0].")
        shows = shows.replace(f"lg.handlers[{len(theirs)}:][0]", f"lg.handlers[{len(theirs)}]")
    with Notebook(Repository.open(store)) as nb:
        plain = nb.run(f"import io, logging, sys\nlg = logging.getLogger({logger})")
        level = nb.look("(lg.level, lg.propagate, lg.disabled)")
        made = nb.run(sets)
        assert "lg" in names_changed(made)
        assert nb.look(shows)
        assert nb.session.status().lost == ()
        nb.checkout(plain)
        assert nb.look("(lg.level, lg.propagate, lg.disabled)") == level
        assert nb.look("lg.handlers") == (theirs if not logger else [])
        nb.checkout(made)
        assert nb.look(shows)
        assert not nb.run("lg").changed
    forget()
    with Notebook(Repository.open(store)) as again:
        again.checkout(made)
        assert again.look(shows)
        assert logging.root.handlers[: len(theirs)] == theirs


def test_a_look_at_the_past_sets_nothing() -> None:
    with Notebook() as nb:
        nb.run("import logging\nlg = logging.getLogger('ak.study'); h = logging.NullHandler()")
        nb.run("lg.addHandler(h); lg.setLevel(10)")
        assert nb.repo.at("HEAD~1")["lg"] is logging.getLogger("ak.study")
        assert nb.look("(lg.level, lg.handlers == [h])") == (10, True)


def test_a_file_stays_open_and_is_not_touched_by_a_restart(tmp_path: Path) -> None:
    store = MemoryStore()
    file = tmp_path / "log.txt"
    with Notebook(Repository.open(store)) as nb:
        nb.run("import logging\nlg = logging.getLogger('ak.study'); n = 1")
        made = nb.run(f"h = logging.FileHandler({str(file)!r}, mode='w'); lg.addHandler(h); lg.error('one')")
        assert {name for lost in made.unsaved for name in lost.name.split(", ")} == {"h", "lg"}
        nb.run("n = 2; lg.setLevel(10)")
        nb.checkout(made)
        nb.run("lg.error('two')")
        assert file.read_text() == "one\ntwo\n"
        nb.look("h.close()")
    forget()
    with Notebook(Repository.open(store)) as again:
        again.checkout(made)
        assert file.read_text() == "one\ntwo\n"
        assert again.look("(lg.handlers == [h], h.stream, n)") == (True, None, 1)
        again.run("lg.error('three'); h.close()")
    assert file.read_text() == "one\ntwo\nthree\n"


def test_loggers_of_libraries_are_left_to_them() -> None:
    with Notebook() as nb:
        first = nb.run("import logging, matplotlib\nlg = logging.getLogger('matplotlib')\nx = 1")
        assert names_changed(nb.run("lg.setLevel('ERROR'); x = 2")) == {"x"}
        nb.checkout(first)
        assert nb.look("(lg.level, x)") == (logging.ERROR, 1)


FILES = {
    "plain": "logging.FileHandler(path)",
    "begun anew": "logging.FileHandler(path, mode='w', encoding='utf-8')",
    "opened later": "logging.FileHandler(path, delay=True)",
    "rotating": "logging.handlers.RotatingFileHandler(path, maxBytes=10_000, backupCount=2)",
    "rotating by time": "logging.handlers.TimedRotatingFileHandler(path)",
    "watched": "logging.handlers.WatchedFileHandler(path)",
}


def log_to(path: Path, made: str) -> str:
    return (
        f"import logging, logging.handlers\npath = {str(path)!r}\nh = {made}\nh.setLevel(30)\n"
        "h.setFormatter(logging.Formatter('%(levelname)s %(message)s'))\n"
        "lg = logging.getLogger('ak.study'); lg.propagate = False; lg.addHandler(h); lg.error('one')"
    )


def close_files() -> None:
    for name in NAMES:
        for handler in logging.getLogger(name).handlers:
            if isinstance(handler, logging.FileHandler):
                handler.close()
    forget()


@pytest.mark.parametrize("made", FILES)
def test_a_log_file_goes_on_after_a_restart(made: str, tmp_path: Path) -> None:
    store, path = MemoryStore(), tmp_path / "study.log"
    with Notebook(Repository.open(store)) as nb:
        nb.run(log_to(path, FILES[made]))
        nb.run("lg.error('two')")
    close_files()
    before = path.stat()
    with Notebook(Repository.open(store)) as nb:
        assert nb.checkout("main").unsaved == ()
        assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
        assert nb.look("(lg.handlers == [h], h.level, h.stream)") == (True, 30, None)
        nb.run("lg.error('three')")
        assert path.read_text().splitlines() == ["ERROR one", "ERROR two", "ERROR three"]
    close_files()


@pytest.mark.parametrize("made", FILES)
def test_a_log_file_that_is_gone_is_not_made_again(made: str, tmp_path: Path) -> None:
    store, path = MemoryStore(), tmp_path / "study.log"
    with Notebook(Repository.open(store)) as nb:
        nb.run(log_to(path, FILES[made]))
    close_files()
    path.unlink()
    with Notebook(Repository.open(store)) as nb:
        lost = nb.checkout("main").unsaved
        assert [(one.name, one.reason) for one in lost] == [
            ("h, lg", f"its open file {path} cannot be saved; after a restart it appends to that file if there is one")
        ]
        nb.run("lg.error('two')")
        assert not path.exists()
        assert nb.look("lg.handlers") == []
    close_files()


def test_a_handler_with_an_open_file_goes_on_with_it_and_gets_its_settings_back(tmp_path: Path) -> None:
    path = tmp_path / "study.log"
    with Notebook() as nb:
        first = nb.run(log_to(path, FILES["begun anew"]))
        handler, stream = nb.look("h"), nb.look("h.stream")
        nb.run("h.setLevel(50); h.setFormatter(None); h.note = 1")
        nb.run("lg.error('two')")
        assert nb.checkout(first).notes == ()
        assert (nb.look("h"), nb.look("h.stream")) == (handler, stream)
        assert nb.look("(h.level, hasattr(h, 'note'))") == (30, False)
        nb.run("lg.error('three')")
        assert path.read_text().splitlines() == ["ERROR one", "ERROR three"]
        assert isinstance(nb.repo.at(rev(first))["h"], logging.FileHandler)
        assert path.read_text().splitlines() == ["ERROR one", "ERROR three"]
    close_files()


RELOADED = (  # as notebooks do it whose front end had given the root logger a handler
    "import logging, sys\nfrom importlib import reload\nearly = logging.NullHandler()\nlogging.getLogger('ak.early')",
    "reload(logging)",
    "lg = logging.getLogger('ak.study'); lg.setLevel(10); h = logging.StreamHandler(); h.setLevel(30)",
    "lg.addHandler(h); lg.addHandler(early); root = logging.getLogger(); root.setLevel(40)",
)


def test_what_is_set_after_a_reload_of_logging_comes_back(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    shows = "assert (lg.level, lg.handlers, h.level, root.level) == (10, [h, early], 30, 40)"
    checks = (shows, "assert lg is logging.getLogger('ak.study') and root is logging.getLogger()")
    made = elsewhere({"made": Sheet(store, RELOADED, checks=checks)})["made"]
    assert (made.error, made.failed, made.unsaved) == ("", (), ())
    read = elsewhere({"read": Sheet(store, checkout=True, checks=checks)})["read"]
    assert (read.error, read.failed) == ("", ())
