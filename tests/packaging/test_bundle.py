"""The modules of a panel become one, as a browser would have linked them; what cannot be joined is named with its line."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from widgets import bundle

node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


def written(folder: Path, modules: Mapping[str, str]) -> Path:
    """The modules in the folder of a panel; the first one is the entry."""
    for name, text in modules.items():
        path = folder / "panel" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "panel" / next(iter(modules))


def answer(script: Path, code: str) -> object:
    """What the module's `answer` is, as Node runs it."""
    script.write_text(code)
    shown = f"import({json.dumps(str(script))}).then((m) => console.log(JSON.stringify(m.answer)))"
    done = subprocess.run(["node", "-e", shown], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@node
def test_modules_keep_names_of_their_own(tmp_path: Path) -> None:
    entry = written(
        tmp_path,
        {
            "entry.js": 'import { twice } from "./a.js";\nimport { thrice } from "./b.js";\n'
            "const by = 100;\nexport const answer = [by, twice(1), thrice(1)];\n",
            "a.js": "const by = 2;\nexport function twice(n) {\n  return n * by;\n}\n",
            "b.js": "const by = 3;\nexport function thrice(n) {\n  return n * by;\n}\n",
        },
    )
    assert answer(tmp_path / "made.mjs", bundle.module(entry)) == [100, 2, 3]


@node
def test_a_module_runs_once_and_before_those_that_import_it(tmp_path: Path) -> None:
    entry = written(
        tmp_path,
        {
            "entry.js": 'import {\n  left,\n} from "./left.js";\nimport { right } from "./right.js";\n'
            'import { seen } from "../shared/log.js";\nexport const answer = [left, right, seen];\n',
            "left.js": 'import { note as say } from "../shared/log.js";\nexport const left = say("left");\n',
            "right.js": 'import { note } from "../shared/log.js";\nexport const right = note("right");\n',
            "../shared/log.js": "export const seen = [];\nexport function note(what) {\n  return seen.push(what);\n}\n",
        },
    )
    assert answer(tmp_path / "made.mjs", bundle.module(entry)) == [1, 2, ["left", "right"]]


@node
def test_every_form_of_export_that_the_sources_use_is_carried(tmp_path: Path) -> None:
    entry = written(
        tmp_path,
        {
            "entry.js": 'import { A, b, c, d, e } from "./all.js";\n/** @type {import("./all.js").A | null} */\n'
            "export const answer = [typeof A, b, typeof c, [...d()], e];\nexport default { answer };\n",
            "all.js": "export class A {}\nexport const b = 1;\nexport async function c() {}\n"
            "export function* d() {\n  yield 2;\n}\nexport const e = `\nan export, an import\n`;\n",
        },
    )
    assert answer(tmp_path / "made.mjs", bundle.module(entry)) == [
        "function",
        1,
        "function",
        [2],
        "\nan export, an import\n",
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('import * as all from "./a.js";', "cannot join"),
        ('import a from "./a.js";', "cannot join"),
        ('import "./a.js";', "cannot join"),
        ('import { a } from "somewhere";', "cannot join"),
        ("import { a } from './a.js';", "cannot join"),
        ('  import { a } from "./a.js";', "cannot join"),
        ('const late = () => import("./a.js");', "cannot join"),
        ('export { a } from "./a.js";', "cannot join"),
        ('export * from "./a.js";', "cannot join"),
        ("export let a = 1;", "cannot join"),
        ("export const { a } = {};", "cannot join"),
        ("export default 1;", "cannot join"),
        ('import { b } from "./a.js";', "a.js does not export 'b'"),
        ('import { a } from "./gone.js";', "there is no panel/gone.js"),
        ('import { a } from "../../outside.js";', "there is no "),
        ('import { answer } from "./entry.js";', "imports panel/entry.js, which imports this"),
    ],
)
def test_what_cannot_be_joined_is_named_with_its_line(tmp_path: Path, line: str, said: str) -> None:
    entry = written(
        tmp_path,
        {
            "entry.js": 'import { a } from "./other.js";\nexport const answer = a;\n',
            "other.js": f"/** A module. */\n\n{line}\nexport const a = 1;\n",
            "a.js": "export const a = 1;\n",
        },
    )
    (tmp_path.parent / "outside.js").write_text("export const a = 1;\n")
    with pytest.raises(bundle.BundleError, match=r"^panel/other\.js:3: ") as raised:
        bundle.module(entry)
    assert said in str(raised.value)


def test_a_sheet_has_all_of_a_panel_in_the_order_of_names(tmp_path: Path) -> None:
    for name in ("b.css", "a.css"):
        written(tmp_path, {name: f".ak-{name[0]} {{}}\n"})
    assert bundle.style(tmp_path / "panel") == "/* panel/a.css */\n.ak-a {}\n/* panel/b.css */\n.ak-b {}\n"
