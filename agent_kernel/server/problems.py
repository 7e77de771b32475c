"""Why a request is not answered: a status for the protocol, a word for programs, one line for people."""

from __future__ import annotations

from agent_kernel.browsing import failure
from agent_kernel.errors import AgentKernelError

__all__ = ["FOREIGN", "ProblemError", "problem_of"]

FOREIGN = "this history was made elsewhere or was moved; open its notebook with a kernel, or say %agent trust there"

_STATUS = {
    "ambiguous": 409,
    "damaged": 500,
    "failed": 500,
    "gone": 404,
    "not_found": 404,
    "refused": 400,
    "too_large": 413,
}
_CODE = {403: "refused", 404: "not_found", 405: "refused", 409: "refused", 413: "too_large"}


class ProblemError(Exception):
    """Answered in place of what was asked for. `code`: a word of the panel's contract; `retry_s`: when to ask again."""

    def __init__(self, status: int, said: str, code: str = "", *, retry_s: int = 0) -> None:
        super().__init__(said)
        self.status = status
        self.said = said
        self.retry_s = retry_s
        self.code = code or _CODE.get(status, "failed" if status >= 500 else "refused")

    def body(self) -> dict[str, object]:
        """The answer. `message` stands outside too, where Jupyter's own clients look for it."""
        return {"error": {"code": self.code, "message": self.said}, "message": self.said}


def problem_of(error: AgentKernelError) -> ProblemError:
    """What to answer where the repository raised."""
    found = failure(error)
    return ProblemError(_STATUS[found["code"]], found["message"], found["code"])
