"""A jupyter-server of its own with the extension, and notebooks with histories under its root folder."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from agent_kernel.commands.places import store_path_of
from agent_kernel.repository import hex_of
from agent_kernel.session import Repository, bind

ROOT = Path(__file__).parents[2]
BASE = "/user/ada"
API = f"{BASE}/agent-kernel/api/v1"
TOKEN = {"Authorization": "token secret"}


class Answer(NamedTuple):
    """What a server said."""

    status: int
    headers: Mapping[str, str]
    body: Any


class Server:
    """A running server. `root`: its root folder."""

    def __init__(self, home: Path, *options: str) -> None:
        self.root = home / "notebooks"
        self.root.mkdir(parents=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        folders = ("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR")
        self._log = home / "server.log"
        command = [
            *(sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root"),
            *("--ServerApp.ip=127.0.0.1", f"--ServerApp.port={self.port}", "--ServerApp.port_retries=0"),
            *(f"--ServerApp.root_dir={self.root}", f"--ServerApp.base_url={BASE}", "--IdentityProvider.token=secret"),
            *("--ServerApp.jpserver_extensions={'agent_kernel': True}", "--AgentKernelServer.idle_s=1", *options),
        ]
        environment = {
            **os.environ,
            **{f"JUPYTER_{name}": str(home / name) for name in folders},
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests" / "absent"))),
        }
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def wait(self) -> None:
        """Until it answers."""
        end = time.monotonic() + 60
        while time.monotonic() < end and self.process.poll() is None:
            try:
                self.get("/notebooks")
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise AssertionError(self.log())

    def log(self) -> str:
        return self._log.read_text()

    def get(self, route: str, /, **arguments: object) -> Answer:
        """Ask below the extension's address."""
        return self.send("GET", route + ("?" + urlencode(arguments, doseq=True) if arguments else ""))

    def send(self, method: str, path: str, headers: Mapping[str, str] = TOKEN) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path if path.startswith(BASE) else API + path, headers=dict(headers))
            found = connection.getresponse()
            text = found.read()
            is_json = found.getheader("Content-Type", "").startswith("application/json")
            return Answer(found.status, dict(found.getheaders()), json.loads(text) if is_json and text else text)
        finally:
            connection.close()

    def store(self, notebook: str) -> str:
        """The id of a notebook's store."""
        answer = self.get("/notebooks", path=notebook)
        assert answer.status == 200, answer
        return str(answer.body["store"]["id"])

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Written(NamedTuple):
    """A notebook with a history."""

    path: Path
    commits: list[str]


def write_notebook(path: Path, *sources: str) -> Written:
    """A notebook, and the store beside it with a commit for each cell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    return Written(path, run(store_path_of(path), *sources))


def run(store: Path, *sources: str) -> list[str]:
    """Run cells on a store, which is made if need be, and return their commits."""
    namespace: dict[str, object] = {}
    with Repository.open(store) as repo:
        session = bind(namespace, repo, skip=lambda name: name.startswith("__"))
        made: list[str] = []
        for number, source in enumerate(sources, 1):
            session.begin_cell(source, cell_id=f"cell-{number}", number=number)
            exec(source, namespace)
            report = session.end_cell()
            assert report is not None
            assert report.commit is not None
            made.append(hex_of(report.commit))
        session.close()
        return made
