"""agent_kernel in IPython, as its user has it: `%load_ext agent_kernel` with a store on disk."""

from __future__ import annotations

from typing import Any

from benchmarks.drivers.shell import ShellDriver


class Driver(ShellDriver):
    restores = True

    def configure(self, config: Any) -> None:
        config.AgentKernel.store = str(self.kept / "store")

    def switch_on(self) -> None:
        from agent_kernel.magics.extension import AgentKernel

        self.shell.run_line_magic("load_ext", "agent_kernel")
        self._session = AgentKernel.of(self.shell).notebook.session
        if self._session is None:
            raise RuntimeError("agent_kernel bound no store")

    @property
    def session(self) -> Any:
        return self._session

    def state(self) -> str:
        return bytes(self.session.head)[:32].hex()

    def come_back(self, state: str) -> None:
        self.session.checkout(state)

    def start_branch(self, name: str) -> None:
        self.session.switch(name, create=True)

    def come_to_branch(self, name: str) -> bool:
        if name not in self.session.repo.branches():
            return False
        self.session.switch(name)
        return True

    def close(self) -> None:
        self.shell.run_line_magic("unload_ext", "agent_kernel")
