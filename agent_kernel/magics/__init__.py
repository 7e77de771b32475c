"""The IPython extension: `%load_ext agent_kernel`.

Loading registers four things (the cell hooks, the `%agent` magics, two input transformers, a completer) and binds the
notebook to its store; unloading takes all of them away again. Both may be repeated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from agent_kernel.magics.extension import MakePanels
    from agent_kernel.magics.shell import Shell


def load_ipython_extension(shell: InteractiveShell, make_panels: MakePanels | None = None) -> None:
    """Make every cell of this IPython a commit. `make_panels`: makes the panels of a kernel."""
    from agent_kernel.magics.extension import AgentKernel

    AgentKernel.of(cast("Shell", shell)).load(make_panels)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Take everything back that loading registered, and close the store; the variables stay as they are."""
    from agent_kernel.magics.extension import AgentKernel

    AgentKernel.of(cast("Shell", shell)).unload()
