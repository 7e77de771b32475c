"""What became of a step whose outcome was never written down: the process died, or an interrupt came, after its code ran.

A step's commit names its run and its number. Where it is in the history the step has run to its end, and what it came to
is read from there. Where it is not, nobody knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_kernel.agents import context
from agent_kernel.agents.asides import PREVIEWS
from agent_kernel.agents.events import Event, Output, Part, StateChange
from agent_kernel.repository import hex_of
from agent_kernel.values import summaries

if TYPE_CHECKING:
    from agent_kernel.agents.place import Place
    from agent_kernel.repository import Commit, ObjectId
    from agent_kernel.session.snapshot import Repository

__all__ = ["commit_of", "outcome_of"]

KEPT = "(What came of this step was not recorded as it ran; this is what the history has kept of it.)"


def commit_of(repo: Repository, run: str, step: int, began_ns: int) -> tuple[ObjectId, Commit] | None:
    """The commit that a step became, wherever in the history it is by now; `began_ns`: when its code began."""
    heads = [head.commit for head in repo.heads().values() if head.commit is not None]
    # What a step did on a fork is no outcome: it was not taken on.
    branches = [tip for name, tip in repo.branches().items() if not name.startswith(PREVIEWS)]
    for id, commit in repo.log(list(dict.fromkeys([*branches, *heads]))):
        if commit.time_ns < began_ns:
            return None
        if commit.run == run and commit.step == step:
            return id, commit
    return None


def outcome_of(place: Place, id: ObjectId, commit: Commit, most_chars: int, note: str = "") -> tuple[list[Event], str]:
    """The events that say what a step came to, read from its commit, and the commit's id in hex digits.

    Args:
        note: what else the model is told.
    """
    assert place.session is not None
    repo = place.session.repo
    place.look()
    text = place.shown(_shown(repo, commit), most_chars).rstrip()
    tree = repo.tree(commit.tree)

    def summary(name: str) -> str:
        entry = tree.get(name)
        stored = repo.read_summary(entry) if entry is not None else b""
        if not stored or place.hidden(name):
            return ""
        return place.masked(context.told(summaries.decode(stored), place.policy))

    lines = context.change_lines([one for one in commit.changed if place.tells(one.name)], summary)
    told = [KEPT, *([text] if text else []), *(["\n".join(["Changed variables:", *lines])] if lines else [])]
    parts = (Part("text/plain", text),) if text else ()
    seconds = commit.cell.duration_s if commit.cell is not None else 0.0
    sent = context.cut("\n\n".join(told), most_chars) + note
    found: list[Event] = [Output(status=_status(commit), sent=sent, parts=parts, duration_s=seconds)]
    if commit.changed or commit.unsaved:
        said = tuple(
            (
                one.how,
                summaries.MASK if place.redactor.knows(one.name) else one.name,
                "" if one.how == "-" else summary(one.name),
            )
            for one in commit.changed
        )
        found.append(StateChange(changed=said, unsaved=tuple((one.name, one.reason) for one in commit.unsaved)))
    return found, hex_of(id)


def _status(commit: Commit) -> str:
    error = commit.cell.error if commit.cell is not None else ""
    return "timeout" if error.startswith("StepTimeout") else commit.status


def _shown(repo: Repository, commit: Commit) -> str:
    """What the step printed and showed, as text, and what it raised."""
    from agent_kernel.repository import read_outputs

    cell = commit.cell
    if cell is None:
        return ""
    if cell.outputs is None:
        return cell.error
    pieces: list[str] = []
    for output in read_outputs(repo.objects, cell.outputs).outputs:
        pieces += ["\n".join(output.traceback) or output.text] if output.kind in ("stream", "error") else []
        pieces += [face.text for face in output.faces if face.mime == "text/plain" and face.text]
    return "\n".join(piece.rstrip() for piece in pieces if piece)
