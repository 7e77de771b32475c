"""JupyterLab or Notebook 7 with the extension of this checkout, in folders of its own, as one of many on a hub.

Nothing of the user's own Jupyter is read or written, and nothing stays: the kernels end before the server does, and both are
ended by their process ids.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal
from urllib.request import Request, urlopen

import nbformat
import psutil

from agent_kernel import __version__
from hatch_build import _extension

__all__ = ["App", "Jupyter", "until"]

App = Literal["lab", "notebook"]

_ROOT = Path(__file__).parents[2]
_MODULES: Final = {"lab": "jupyterlab", "notebook": "notebook"}
_BASE: Final = "/user/ada"  # a hub gives each user an address like this one
_TOKEN: Final = "secret"
_SETTINGS: Final = "settings/@jupyterlab/apputils-extension"
_START_S: Final = 60.0
_STOP_S: Final = 10.0


class Jupyter:
    """A server. `folder`: where its notebooks are."""

    def __init__(self, app: App, home: Path) -> None:
        self.app = app
        self.home = home
        self.folder = home / "notebooks"
        self.folder.mkdir(parents=True)
        self._install()
        self.theme("light")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                self._command(), env=self.environment(), stdout=log, stderr=log, start_new_session=True
            )

    @property
    def _log(self) -> Path:
        return self.home / "server.log"

    def _install(self) -> None:
        """Put what a wheel brings where Jupyter looks."""
        shutil.copytree(
            _ROOT / "jupyter-config" / "jupyter_server_config.d", self.home / "config/jupyter_server_config.d"
        )
        shutil.copytree(_ROOT / "jupyter-config" / "kernels", self.home / "data/kernels")
        for name, text in _extension(_ROOT, __version__).items():
            path = self.home / "data/labextensions/@agent-kernel/lab" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")

    def theme(self, name: Literal["light", "dark"]) -> None:
        """Which theme the pages have that are opened from now on."""
        folder = self.home / _SETTINGS
        folder.mkdir(parents=True, exist_ok=True)
        news = {"fetchNews": "false", "checkForUpdates": False}
        (folder / "notification.jupyterlab-settings").write_text(json.dumps(news))
        (folder / "themes.jupyterlab-settings").write_text(json.dumps({"theme": f"JupyterLab {name.title()}"}))

    def _command(self) -> list[str]:
        return [
            *(sys.executable, "-m", _MODULES[self.app], "--no-browser", "--allow-root"),
            *("--ServerApp.ip=127.0.0.1", f"--ServerApp.port={self.port}", "--ServerApp.port_retries=0"),
            *(f"--ServerApp.root_dir={self.folder}", f"--ServerApp.base_url={_BASE}/"),
            *(f"--IdentityProvider.token={_TOKEN}", "--AgentKernelServer.idle_s=1"),
            *(["--LabApp.expose_app_in_browser=True"] if self.app == "lab" else []),
        ]

    def environment(self) -> dict[str, str]:
        """Of the server, and of all that works on the same stores."""
        names = {"CONFIG_DIR": "config", "DATA_DIR": "data", "RUNTIME_DIR": "runtime", "PATH": "none"}
        folders = {f"JUPYTER_{name}": str(self.home / folder) for name, folder in names.items()}
        lab = {f"JUPYTERLAB_{name}_DIR": str(self.home / name.lower()) for name in ("SETTINGS", "WORKSPACES")}
        # What is installed here comes before what the environment has: the checkout is what is tested.
        return {
            **os.environ,
            **folders,
            **lab,
            "JUPYTER_PREFER_ENV_PATH": "0",
            "IPYTHONDIR": str(self.home / "ipython"),
            "XDG_DATA_HOME": str(self.home / "xdg"),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
            "PYTHONPATH": os.pathsep.join((str(_ROOT), str(_ROOT / "tests" / "absent"))),
        }

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def wait(self) -> None:
        """Until it answers."""

        def answers() -> bool:
            assert self.process.poll() is None, self.log()
            try:
                self.api("status")
            except OSError:
                return False
            return True

        until(answers, _START_S, self.log)

    def api(self, route: str, method: str = "GET") -> Any:
        """Ask Jupyter's own REST interface."""
        address = f"http://127.0.0.1:{self.port}{_BASE}/api/{route}"
        request = Request(address, method=method, headers={"Authorization": f"token {_TOKEN}"})
        with urlopen(request, timeout=10) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def write(self, name: str, *cells: str, kernel: str = "agent-kernel") -> Path:
        """A notebook with these code cells, never run."""
        made: Any = nbformat.v4.new_notebook(
            metadata={"kernelspec": {"name": kernel, "display_name": "Python 3 (Agent)", "language": "python"}},
            cells=[nbformat.v4.new_code_cell(source, id=f"cell-{number}") for number, source in enumerate(cells, 1)],
        )
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(made, path)
        return path

    def address(self, name: str) -> str:
        """Where a notebook opens."""
        way = f"lab/tree/{name}?reset&" if self.app == "lab" else f"notebooks/{name}?"
        return f"http://127.0.0.1:{self.port}{_BASE}/{way}token={_TOKEN}"

    def wait_idle(self, name: str) -> None:
        """Until the notebook's kernel is there, is connected and does nothing. What the page shows comes too early."""

        def idle() -> bool:
            kernels = [session["kernel"] for session in self.api("sessions") if session["path"] == name]
            return any(kernel["connections"] >= 1 and kernel["execution_state"] == "idle" for kernel in kernels)

        until(idle, 60.0, self.log)

    def end_kernels(self) -> None:
        """End all kernels, and see that no process of theirs stays."""
        alive = psutil.Process(self.process.pid).children(recursive=True)
        # A kernel that is ended while it starts can take the server with it.
        until(lambda: all(kernel["execution_state"] != "starting" for kernel in self.api("kernels")), 30.0, self.log)
        for session in self.api("sessions"):
            self.api(f"sessions/{session['id']}", "DELETE")
        _, left = psutil.wait_procs(alive, timeout=20)
        for process in left:
            process.kill()
        assert not left, left

    def stop(self) -> None:
        """End the server and all that it started."""
        family = [*psutil.Process(self.process.pid).children(recursive=True)]
        self.process.terminate()
        try:
            self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:  # seen after a session had ended while its page opened again
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for process in psutil.wait_procs(family, timeout=5)[1]:
            process.kill()


def until(holds: Callable[[], bool], limit_s: float, why: Callable[[], str] = str) -> None:
    """Wait until something holds."""
    end = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < end, why()[-4000:] or "it did not come true in time"
        time.sleep(0.05)
