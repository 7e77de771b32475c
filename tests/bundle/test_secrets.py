"""What looks like a secret stays out of a bundle, wherever in a value it stands."""

from __future__ import annotations

import base64
import json
import pickle
import random
import re
import string
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_kernel.bundle import exporting, opening
from agent_kernel.bundle.exporting import looks_secret, value_looks_secret
from agent_kernel.errors import LoadError, NameNotFoundError, RefNotFoundError
from agent_kernel.repository import Output
from agent_kernel.session import Repository
from agent_kernel.values.previews import MASK, mask_text
from tests.bundle.bundles import bundle_of, make_bundle, members_of
from tests.bundle.studies import Ran, make_study
from tests.commands.stores import make_history

BODY = "u7Qk2ZpR9sLx4WmT" * 12
KEY = "sk-proj-" + BODY[:44]
PUT = f"import json, pathlib\nKEY = 'sk-' + 'proj-' + {BODY[:44]!r}[::1]"


def everything_in(bundle: Path) -> Iterator[tuple[str, bytes]]:
    """Each member, and each object that stands in one."""
    yield from members_of(bundle).items()
    with opening.opened(bundle) as found:
        for keys in opening.pages(found.store):
            for key in keys:
                yield key.hex(), found.repo.objects.get(key[:1], key[1:])  # type: ignore[arg-type]


def holders(bundle: Path, secret: str = BODY[:44]) -> list[str]:
    written = (secret.encode(), secret.encode("utf-32-le"))
    return [name for name, content in everything_in(bundle) if any(one in content for one in written)]


def left_out(bundle: Path) -> set[str]:
    with opening.opened(bundle) as found:
        return set(found.manifest["left_out"])


class TestWhatIsRead:
    @pytest.mark.sampled
    @pytest.mark.parametrize("length", range(16, 141))
    def test_the_length_before_a_text_does_not_hide_it(self, length: int) -> None:
        key = "sk-" + BODY[: length - 3]
        for value in (key, [1, key], {key: 1}, (key.encode(), 2), {"a": [key]}):
            assert looks_secret(pickle.dumps(value, 5)), value

    def test_words_that_end_as_keys_begin_are_none(self) -> None:
        for text in (
            "risk-averse-investors",
            "task-2024-01-03-of-the-day",
            "a disk-usage-by-directory",
            "ask-me-anything-now",
        ):
            assert not looks_secret(pickle.dumps([text], 5))

    def test_a_colour_before_it_does_not_hide_it(self) -> None:
        for colour in ("\x1b[m", "\x1b[0m", "\x1b[1;31m", "\x1b[38;5;160m"):
            assert looks_secret(f"{colour}{KEY}".encode())
            assert mask_text(f"{colour}{KEY}") == f"{colour}{MASK}"

    def test_texts_of_arrays(self) -> None:
        assert looks_secret(np.array(["a" * len(KEY), KEY, "b"]).tobytes())
        assert looks_secret(np.array([b"a" * len(KEY), KEY.encode(), b"b"]).tobytes())
        assert not looks_secret(np.array(["a" * 30, "risk-averse-investors"]).tobytes())

    @pytest.mark.parametrize("place", [0, 5, 262_000, 262_140, 258_040, 258_050, 3_000_000])
    def test_it_is_found_wherever_it_stands(self, place: int) -> None:
        assert looks_secret(b" " * place + KEY.encode() + b" " * 5)
        assert looks_secret(b"\0" * place + b"tcp://me:hunter2@db/x" + b"\0" * 5)

    def test_where_a_piece_ends_within_a_word_none_begins(self) -> None:
        assert not looks_secret(b"task-abc-defg-hij-klm " * 60_000)

    def test_random_bytes_are_none(self) -> None:
        assert not looks_secret(np.random.default_rng(0).bytes(8 << 20))


class TestValues:
    def test_in_any_value_of_any_size(self, tmp_path: Path) -> None:
        cells = {
            "nested": "[[[{'a': (KEY,)}]]]",
            "long_list": "['x' * 50 + str(i) for i in range(60_000)] + [KEY]",
            "long_dict": "{i: 'v' * 40 for i in range(50_000)} | {49_999: KEY}",
            "bytes_": "b'z' * (3 << 20) + KEY.encode()",
            "text": "'z ' * (2 << 20) + KEY",
            "columns": "pd.DataFrame(np.zeros((2, 300)), columns=[f'c{i}' for i in range(299)] + [KEY])",
            "category": "pd.Categorical([KEY])",
            "series_name": "pd.Series([1], name=KEY)",
            "index_name": "pd.DataFrame({'a': [1]}).rename_axis(KEY)",
            "fields": "np.zeros(2, dtype=[(KEY, 'i4')])",
            "texts": "np.array(['a' * len(KEY), KEY] * 5_000)",
            "few_texts": "np.array(['a' * len(KEY), KEY])",
            "objects": "np.array([KEY] * 20_000 + ['a'] * 100, object)",
            "column": "pd.DataFrame({'a': ['b' * 40, KEY, 'c'] * 9_000})",
            "part": "functools.partial(print, KEY)",
            "cut": "slice(KEY, None)",
            "failure": "ValueError(KEY)",
        }
        made = "\n".join(f"{name} = {code}" for name, code in cells.items())
        bundle = make_bundle(
            tmp_path,
            "import functools, numpy as np, pandas as pd",
            f"{PUT}\n{made}\nattrs = pd.DataFrame({{'a': [1]}}); attrs.attrs['k'] = KEY",
            "def make():\n    z = KEY\n    return lambda: z\nclosure = make()",
            "safe = pd.DataFrame({'a': ['risk-averse-investors', 'b'] * 9_000})\nnumbers = np.arange(300_000.0)",
        )
        assert holders(bundle) == []
        assert left_out(bundle) == {*cells, "KEY", "attrs", "closure"}

    def test_the_memory_of_numbers_takes_no_time(self, tmp_path: Path) -> None:

        make_history(tmp_path / "store", "import numpy as np", "a = np.random.default_rng(0).random(8 << 20)")
        with closing(Repository.open(tmp_path / "store")) as repo:
            head = repo.head().commit
            assert head is not None
            entry = repo.tree_at(head).get("a")
            assert entry is not None
            begin_s = time.thread_time()
            assert not value_looks_secret(repo.objects, repo.read_manifest(entry))
            assert time.thread_time() - begin_s < 0.1  # of 64 MB: none of it is read


class TestClasses:
    def test_a_class_that_holds_one_stays_at_home_with_all_that_needs_it(self, tmp_path: Path) -> None:
        bundle = make_bundle(
            tmp_path,
            "import dataclasses, enum",
            PUT,
            "class Plain:\n    here = 1\nplain = Plain()",
            "class Client:\n    key = KEY\nclient = Client()",
            "class Derived(Client):\n    pass\nderived = [Derived()]",
            "class Told:\n    __doc__ = KEY",
            "Sort = enum.Enum('Sort', {'A': KEY})\nsort = Sort.A",
            "Row = dataclasses.make_dataclass('Row', [('a', str, KEY)])\nrow = Row()",
            "del client",
        )
        assert holders(bundle) == []
        variables = {"Client", "client", "Derived", "derived", "Told", "Sort", "sort", "Row", "row"}
        classes = {"class Client", "class Derived", "class Told", "class Sort", "class Row"}
        assert left_out(bundle) == {"KEY"} | variables | classes
        with opening.opened(bundle) as found:
            opening.verify(found)
            assert {"Plain", "plain"} <= set(found.repo.at("main"))

    def test_who_keeps_a_variable_keeps_its_class(self, tmp_path: Path) -> None:

        make_history(tmp_path / "store", PUT, "class Client:\n    key = KEY\nclient = Client()\nother = Client()")
        with closing(Repository.open(tmp_path / "store")) as repo:
            contents = exporting.gather(repo, exporting.choose(repo, []), keep=["client"])
            assert sorted(contents.left_out) == ["Client", "KEY", "other"]
            exporting.write(contents, tmp_path / "b.agentnb")
            with pytest.raises(LoadError, match="the class Client"):  # what is being written is not loaded, only read
                contents.repo.at("main")["client"]
        made = opening.open_bundle(tmp_path / "b.agentnb", tmp_path, trusts=True)
        with closing(Repository.open(made.store, create=False)) as repo:
            assert vars(type(repo.at("main")["client"]))["key"] == KEY


class TestNames:
    def test_a_variable_of_such_a_name_stays_at_home_unnamed(self, tmp_path: Path) -> None:
        bundle = make_bundle(
            tmp_path, PUT, "globals()[KEY] = 1\nn = 2", "del globals()[KEY]", "globals()[KEY] = (i for i in range(3))"
        )
        assert holders(bundle) == []
        assert left_out(bundle) == {"KEY", MASK}

    def test_an_exception_of_such_a_name_is_masked(self, tmp_path: Path) -> None:
        failed = Output(kind="error", name=KEY, text="x", traceback=(f"\x1b[31m{KEY}\x1b[0m: x", f"\x1b[0;31m{KEY}"))
        make_study(tmp_path / "store", Ran("n = 1", [failed]))
        assert holders(bundle_of(tmp_path / "store", tmp_path / "b.agentnb")) == []

    @pytest.mark.parametrize("kind", ["branch", "tag"])
    def test_a_branch_or_tag_of_such_a_name_is_refused(self, tmp_path: Path, kind: str) -> None:
        make_study(tmp_path / "store", Ran("n = 1"))
        with closing(Repository.open(tmp_path / "store")) as repo:
            head = repo.head().commit
            assert head is not None
            (repo.create_branch if kind == "branch" else repo.create_tag)(KEY, head)
            chosen = exporting.choose(repo, [KEY])
            with pytest.raises(RefNotFoundError, match=f"the name of a {kind} looks like a secret") as error:
                exporting.gather(repo, chosen)
            assert KEY not in str(error.value)
            assert exporting.gather(repo, chosen, keeps_secrets=True).left_out == {}


# -- random keys in random values

_A = string.ascii_letters + string.digits
_UPPER = string.ascii_uppercase + string.digits


def _body(letters: str, least: int, most: int) -> st.SearchStrategy[str]:
    """Letters by lot: Hypothesis would also draw words that stand in every bundle."""
    lots = st.tuples(st.integers(least, most), st.integers(0, 2**64))
    return lots.map(lambda lot: "".join(random.Random(lot[1]).choices(letters, k=lot[0])))


_KEYS = st.one_of(
    _body(_A, 17, 137).map("sk-".__add__),
    _body(_A, 12, 132).map("sk-proj-".__add__),
    _body(_A, 36, 136).map("ghp_".__add__),
    _body(_A, 40, 129).map("github_pat_".__add__),
    _body(_A, 20, 134).map("glpat-".__add__),
    _body(_UPPER, 16, 16).map("AKIA".__add__),
    _body(_A, 35, 136).map("AIza".__add__),
    _body(_A, 17, 137).map("hf_".__add__),
    _body(_A, 20, 100).map("xoxb-".__add__),
    _body(_A, 36, 136).map("npm_".__add__),
    _body("0123456789abcdef", 32, 32).map("dapi".__add__),
    _body(_A, 20, 60).map(lambda body: f"eyJhbGciOiJIUzI1NiJ9.{body}.{body}"),
    _body(_A, 12, 100).map(lambda body: f"postgres://bob:{body}@db/x"),
    _body(_A, 20, 100).map(lambda body: f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----"),
    _body(_A, 12, 100).map("password=".__add__),
)
_PLAIN = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=30), st.binary(max_size=30))


def _within(key: str) -> st.SearchStrategy[object]:
    """A random value that holds the key somewhere."""
    words = st.sampled_from(["", "a ", "see: ", "x" * 300 + " ", "\u20ac", "\n"])
    told = words.map(lambda before: f"{before}{key}")
    return st.recursive(
        st.one_of(st.just(key), told, st.just(key.encode()), told.map(str.encode)),
        lambda below: st.one_of(
            st.tuples(st.lists(_PLAIN, max_size=300), below, st.lists(_PLAIN, max_size=3)).map(
                lambda parts: [*parts[0], parts[1], *parts[2]]
            ),
            st.tuples(_PLAIN, below),
            st.tuples(st.text(max_size=5), below).map(lambda pair: {pair[0]: pair[1], "n": 1}),
            st.just({key: 1}),
            st.just({key, "b"}),
        ),
        max_leaves=4,
    )


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    st.lists(_KEYS, min_size=6, max_size=6, unique=True).flatmap(
        lambda keys: st.tuples(st.just(keys), st.tuples(*map(_within, keys)))
    )
)
def test_no_key_at_any_place_of_any_value_goes_along(drawn: tuple[list[str], tuple[object, ...]]) -> None:
    keys, values = drawn
    with tempfile.TemporaryDirectory() as folder:
        held = {f"v{number}": value for number, value in enumerate(values)}
        make_study(Path(folder, "store"), Ran("...", values=held), Ran("n = 1"))
        bundle = bundle_of(Path(folder, "store"), Path(folder, "b.agentnb"))
        contents = [content for _, content in everything_in(bundle)]
        for key in keys:
            body = max(re.split(r"[^A-Za-z0-9]+", key), key=len).encode()
            assert len(body) >= 8
            assert not [one for one in contents if body in one], key


class TestCopies:
    """The text of a secret is one under any name."""

    CELLS = (
        "password = 'hunter2hunter2'",
        "copy = password",
        "cfg = {'host': 'h', 'x': password}",
        "import os, pandas as pd\ndf = pd.DataFrame({'a': [1]})\ndf.attrs['note'] = password",
        "os.environ['MY_TOKEN'] = 'tok-hunter2-zz'\nval = os.environ['MY_TOKEN']",
        "ask = lambda: 'hunter2hunter2'",
        "n = 5\nword = 'hunter'",
    )

    def test_what_holds_the_text_of_a_secret_stays_at_home(self, tmp_path: Path) -> None:
        bundle = make_bundle(tmp_path, *self.CELLS)
        assert left_out(bundle) == {"password", "copy", "cfg", "df", "val", "ask"}
        assert holders(bundle, "hunter2") == []

    def test_who_keeps_the_secret_keeps_its_copies(self, tmp_path: Path) -> None:
        make_bundle(tmp_path, *self.CELLS[:3])
        with closing(Repository.open(tmp_path / "study-store")) as repo:
            contents = exporting.gather(repo, exporting.choose(repo, []), keep=["password"])
        assert contents.left_out == {}

    def test_the_reason_is_said(self, tmp_path: Path) -> None:
        make_bundle(tmp_path, *self.CELLS[:2])
        with closing(Repository.open(tmp_path / "study-store")) as repo:
            contents = exporting.gather(repo, exporting.choose(repo, []))
        assert contents.left_out == {
            "password": "its name is that of a secret",
            "copy": "it holds the secret of password",
        }


class TestCode:
    def test_of_a_table_with_a_secret_column_that_column_alone_is_masked(self, tmp_path: Path) -> None:
        bundle = make_bundle(
            tmp_path,
            "import pandas as pd",
            "users = pd.DataFrame({'name': ['north', 'ann'], 'password': ['ZZSEC3pw99', 'q2w3e4r5']})",
            "region = 'north'; prices = {'north': 1}",
            "name = 'x'",
        )
        assert left_out(bundle) == {"users"}
        assert holders(bundle, "ZZSEC3pw99") == []
        with opening.opened(bundle) as found:
            sources = [commit.cell.source for _, commit in found.repo.log() if commit.cell is not None]
        assert sources[:2] == ["name = 'x'", "region = 'north'; prices = {'north': 1}"]
        assert f"{{'name': ['north', 'ann'], 'password': ['{MASK}', '{MASK}']}}" in sources[2]

    def test_masked_code_is_code(self, tmp_path: Path) -> None:
        bundle = make_bundle(
            tmp_path,
            "pin_token = 90210\nnorth = 4",
            "secret = ['north', 'Zz-secret-77']\nnorth += 1",
            exclude=["secret"],
        )
        with opening.opened(bundle) as found:
            for _, commit in found.repo.log():
                if commit.cell is not None:
                    compile(commit.cell.source, "cell", "exec")
        assert holders(bundle, "90210") == holders(bundle, "Zz-secret-77") == []


def test_outputs_that_may_show_what_is_left_out_are_named(tmp_path: Path) -> None:
    study = make_study(
        tmp_path / "store",
        "password = 'hunter2hunter2'",
        Ran("print('using', password)", [Output(kind="stream", name="stdout", text="using hunter2hunter2")]),
        Ran("print('hello')", [Output(kind="stream", name="stdout", text="hello")]),
    )
    with opening.opened(bundle_of(study, tmp_path / "b.agentnb")) as found:
        silent = found.manifest["silent"]
        assert [found.repo.show(one).cell.source for one in silent] == ["print('using', password)"]  # type: ignore[union-attr]


HEX, ALPHANUMERIC = "0123456789abcdef", string.ascii_letters + string.digits
FORMS = {
    **{f"{prefix}@": (ALPHANUMERIC, 40) for prefix in (
        "hvs.", "lin_api_", "dckr_pat_", "gsk_", "xai-", "pplx-", "nvapi-", "tvly-", "r8_", "ntn_", "figd_", "pscale_tkn_",
        "tgp_v1_", "HRKU-", "wandb_v1_", "FlyV1 fm2_", "SSWS ",
    )},
    **{f"{prefix}@": (HEX, 40) for prefix in ("shpat_", "sbp_", "lsv2_pt_")},
    "SK@": (HEX, 32),
    "key-@": (HEX, 32),
    '{"username": "bob", "key": "@"}': (HEX, 32),
    "https://@@o1.ingest.sentry.io/1": (HEX, 32),
    "https://@@github.com/a/b.git": (ALPHANUMERIC, 30),
    "https://maps.example.com/v1?key=@&x=1": (ALPHANUMERIC, 24),
    "https://b.s3.example.com/k?X-Amz-Signature=@": (HEX, 64),
    "Cookie: session=@": (ALPHANUMERIC, 40),
    "tool --password @ --x": (ALPHANUMERIC, 14),
    "tool --token=@": (ALPHANUMERIC, 14),
    "mysql -uroot -p@ db": (ALPHANUMERIC, 14),
    "machine h login bob password @": (ALPHANUMERIC, 14),
    "secret_key = @": (ALPHANUMERIC, 24),
    "Passwort: @": (ALPHANUMERIC, 14),
    "my password is @": (ALPHANUMERIC, 14),
    "PuTTY-User-Key-File-2: ssh-rsa\nPrivate-Lines: 1\n@": (ALPHANUMERIC, 64),
}  # fmt: skip


@pytest.mark.parametrize("place", ["value", "code", "output", "base64"])
def test_keys_of_many_kinds_are_seen_wherever_they_stand(tmp_path: Path, place: str) -> None:
    choice = random.Random(7)
    texts: dict[str, str] = {}
    for form, (letters, length) in FORMS.items():
        core = "".join(choice.choice(letters) for _ in range(length - 2)) + "a7"
        texts[core] = form.replace("@", core, 1) if "@@" in form else form.replace("@", core)
    cells: list[Ran | str] = []
    for number, text in enumerate(texts.values()):
        if place == "output":
            cells.append(Ran(f"show({number})", [Output(kind="stream", name="stdout", text=f"{text}\n")], {}))
        else:
            value = base64.b64encode(text.encode()).decode() if place == "base64" else text
            source = f"v{number} = {text!r}" if place == "code" else f"v{number} = load()"
            cells.append(Ran(source, (), {f"v{number}": {"of": [value]}}))
    bundle = bundle_of(make_study(tmp_path / "store", *cells), tmp_path / "b.agentnb")
    contents = [content for _, content in everything_in(bundle)]
    forms = {
        core: base64.b64encode(text.encode()).decode()[:40] if place == "base64" else core
        for core, text in texts.items()
    }
    assert [texts[core] for core, one in forms.items() if any(one.encode() in content for content in contents)] == []


def test_ordinary_text_is_no_secret() -> None:
    for text in (
        "task-2024-01-03, desk_4, path.join(a, b), pass: 0.9500, passes = 12345, key = order_id, keys: 3 of 4",
        "xai-explainability-methods, r8_column_names_of_table, secret_santa_list_of_names, figd_x",
        "https://docs.python.org/3/library/re.html@latest, a@b.com, --token-count 5, mysql is a database - perhaps",
        "cookie: yes, login is required and password reset is sent",
    ):
        assert mask_text(text) == text
        assert not looks_secret(text.encode())


def test_records_that_hold_one_stay_at_home(tmp_path: Path) -> None:
    import agent_kernel as ak

    class Login(ak.Record):
        text: str

    with ak.open(tmp_path / "store") as repo:
        logins = repo.records(Login)
        for id, text in (
            ("plain", "hello " * 200),
            ("key", KEY),
            ("long", "hello " * 200 + KEY),
            ("copy", "hunter2hunter2"),
        ):
            logins.put(Login(id=id, text=text))
        with ak.Versioned(repo) as state:
            state["password"] = "hunter2hunter2"
            state.commit("a password")
    bundle = bundle_of(tmp_path / "store", tmp_path / "b.agentnb")
    assert holders(bundle) == holders(bundle, "hunter2hunter2") == []
    assert left_out(bundle) == {"password", *(f"Login:{id}" for id in ("key", "long", "copy"))}
    with opening.opened(bundle) as found:
        opening.verify(found)
    with closing(Repository.open(bundle, create=False)) as read:
        assert list(read.records(Login)) == ["plain"]


def test_a_value_whose_key_in_a_state_names_a_secret_stays_at_home(tmp_path: Path) -> None:
    """The key is the name of the record, and no text in it: `state.set("api_key", …)` went along, also from a past commit."""
    import agent_kernel as ak

    with ak.open(tmp_path / "store") as repo:
        state = repo.state("ada", "morning")
        state.set_many({"api_key": "amber-otter-61", "credentials": {"user": "ada"}, "city": "Paris", "max_tokens": 8})
        state.delete("api_key")
        repo.state("bob", "noon").set("password", "")  # none
        with ak.Versioned(repo) as variables:
            variables["x"] = 1
            variables.commit("x")
    bundle = bundle_of(tmp_path / "store", tmp_path / "b.agentnb")
    assert holders(bundle, "amber-otter-61") == []
    assert left_out(bundle) == {"state:ada/s/morning/api_key", "state:ada/s/morning/credentials"}
    with closing(Repository.open(bundle, create=False)) as read:
        assert read.state("ada", "morning").get_all() == {"city": "Paris", "max_tokens": 8}


def test_a_record_that_looks_like_one_goes_along_by_its_name(tmp_path: Path) -> None:
    import agent_kernel as ak

    with ak.open(tmp_path / "store") as repo:
        for name in ("talk", "other talk"):
            talk = repo.list(name, plane="branch", commit_each=name == "talk")
            talk.append(*(f"{number} " + "words " * 2_000 for number in range(12)))
            talk.append(KEY)  # in the last part alone: a list goes or stays as a whole
            talk.append(*(f"{number} " + "words " * 2_000 for number in range(12)))
        with ak.Versioned(repo) as state:
            state.commit("")
        with pytest.raises(NameNotFoundError, match="list:/tallk"):
            exporting.gather(repo, exporting.choose(repo, []), keep=["list:/tallk"])
    bundle = bundle_of(tmp_path / "store", tmp_path / "b.agentnb", keep=["list:/other%20talk"])
    assert left_out(bundle) == {"list:/talk"}
    with closing(Repository.open(bundle, create=False)) as read:
        assert len(read.list("talk", plane="branch").items()) == 0
        assert len(read.list("other talk", plane="branch").items()) == 25


def test_a_number_that_tells_how_long_a_model_took_is_no_secret(tmp_path: Path) -> None:
    """agno writes it into each run, and all its conversations stayed at home."""
    import agent_kernel as ak

    values = {"time_to_first_token": 0.0011, "next_token": "hello", "pad_token": "<pad>"}
    assert not looks_secret(json.dumps({**values, "token": 0.00125}).encode())
    assert looks_secret(json.dumps({"auth_token": "x7-kk-2951"}).encode())
    with ak.open(tmp_path / "store") as repo, ak.Versioned(repo) as state:
        state.update(values, held=values)
        state.commit("")
    assert left_out(bundle_of(tmp_path / "store", tmp_path / "b.agentnb")) == set()


class TestExcluded:
    MARK = "Zq7MARKERxW9"

    @pytest.mark.parametrize(
        "cell",
        [
            "hid = ['{}']",
            "hid = []\nhid.append('{}')",
            "for hid in ['{}']: pass",
            "def hid():\n    return '{}'",
            "class hid:\n    k = '{}'",
            "hid = {{}}\nhid.update(k='{}')",
        ],
    )
    def test_its_code_gives_it_away_nowhere(self, tmp_path: Path, cell: str) -> None:
        bundle = make_bundle(tmp_path, cell.format(self.MARK), "n = 'kept'", exclude=["hid"])
        assert holders(bundle, self.MARK) == []
        assert holders(bundle, "kept")

    def test_what_holds_it_too_is_named(self, tmp_path: Path) -> None:
        make_bundle(tmp_path, f"hid = [1, 2]; b = hid; c = {{'x': hid}}; text = '{self.MARK}'; d = text + '!'; e = 5")
        with closing(Repository.open(tmp_path / "study-store")) as repo:
            contents = exporting.gather(repo, exporting.choose(repo, []), exclude=["hid", "text"])
        assert contents.suspects == {
            "b": "it shares an object with what you left out",
            "c": "it shares an object with what you left out",
            "d": "it holds the text of text, which you left out",
        }
