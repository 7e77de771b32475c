"""The extension as jupyter-server knows it: its name, its options, its handlers."""

from __future__ import annotations

from pathlib import Path

from jupyter_server.extension.application import ExtensionApp
from traitlets import Float, List, Unicode

from agent_kernel.server.handlers import ROUTES
from agent_kernel.server.shelf import Roots, Shelf

__all__ = ["AgentKernelServer"]


class AgentKernelServer(ExtensionApp):
    """Histories of notebooks, to look at without their kernels."""

    name = "agent_kernel"
    description = "Look at the histories that agent_kernel keeps of notebooks, without their kernels."
    load_other_extensions = True

    allowed_roots = List(
        Unicode(),
        help="Folders besides the server's root folder in which stores may be looked at.",
    ).tag(config=True)
    idle_s = Float(30.0, min=1.0, help="Seconds after the last question when a store is closed.").tag(config=True)
    answer_s = Float(30.0, min=1.0, help="Seconds for which somebody waits for an answer.").tag(config=True)

    def initialize_settings(self) -> None:
        """Set up what the handlers share."""
        server = self.serverapp
        assert server is not None
        # Paths of notebooks are the contents manager's. One that keeps no files has no root, and no stores beside them.
        root = Path(getattr(server.contents_manager, "root_dir", server.root_dir))
        roots = Roots(root, [Path(path) for path in self.allowed_roots])
        self._shelf = Shelf(roots.require, idle_s=self.idle_s, answer_s=self.answer_s)
        self.settings.update(agent_kernel_roots=roots, agent_kernel_shelf=self._shelf)

    def initialize_handlers(self) -> None:
        """Add the routes."""
        self.handlers.extend(ROUTES)

    async def stop_extension(self) -> None:
        """Close the stores."""
        self._shelf.close()
