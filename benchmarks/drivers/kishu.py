"""Kishu 0.3.4 through its own hooks in IPython. Without a front end it needs its test mode and a notebook file.

It replaces the namespace by a dict subclass that notes every access, pickles what changed with dill, and runs cells again
where it reckons that to be cheaper than storing.
"""

from __future__ import annotations

import json
import os
from typing import Any

from benchmarks.drivers.shell import ShellDriver


class Driver(ShellDriver):
    restores = True

    def configure(self, config: Any) -> None:
        notebook = self.kept / "notebook.ipynb"
        notebook.write_text(json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
        os.environ["ENV_KISHU_TEST_MODE"] = "1"
        os.environ["TEST_NOTEBOOK_PATH"] = str(notebook)
        os.environ["KISHU_PATH_ROOT"] = str(self.folder)

    def switch_on(self) -> None:
        self.shell.run_cell("from kishu import init_kishu; init_kishu()", store_history=True).raise_error()

    def state(self) -> str:
        head = self.namespace["_kishu"]._kishu_branch.get_head()
        return str(head.commit_id)

    def come_back(self, state: str) -> None:
        self.namespace["_kishu"].checkout(state)
