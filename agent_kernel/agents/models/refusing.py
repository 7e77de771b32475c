"""Why a provider did not answer, in one line, and whether asking again may help. No key is ever part of the line."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

from agent_kernel.agents.context import masked
from agent_kernel.errors import ModelError

if TYPE_CHECKING:
    from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError

__all__ = ["names_tools", "refusals"]

_TRANSIENT: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_UNFIT: Final = frozenset({400, 404, 422, 501})
_AGAIN_S: Final = 1.0  # where the provider says no time
_LONGEST_S: Final = 60.0  # a provider that wants more time than this is not waited for
_MOST_CHARS: Final = 400
_SECRET_NAME: Final = re.compile(r"KEY|TOKEN|SECRET|PASSWORD")


def names_tools(error: ModelHTTPError) -> bool:
    """Whether a server refused the request because of its tools: it, or its model, knows none."""
    said = _message(error.body) or str(error.body or error)
    if error.status_code == 500:  # which llama.cpp answers
        return bool(re.search(r"\btools\b.*\b(requires?|support)", said, re.IGNORECASE | re.DOTALL))
    return error.status_code in _UNFIT and bool(re.search(r"\btools?(\b|_)", said, re.IGNORECASE))


@contextmanager
def refusals(name: str) -> Generator[None]:
    """Let what pydantic-ai raises be a ModelError.

    Raises:
        ModelError: the model of this name did not answer.
    """
    from pydantic_ai import exceptions

    try:
        yield
    except exceptions.ModelHTTPError as error:
        raise _of_status(name, error) from error
    except exceptions.ModelAPIError as error:
        raise _without_status(name, error) from error
    except exceptions.UnexpectedModelBehavior as error:  # what it sent is no answer
        raise ModelError(name, one_line(str(error)), retry_after_s=_AGAIN_S) from error
    except exceptions.UserError as error:
        raise ModelError(name, one_line(str(error))) from error


def _of_status(name: str, error: ModelHTTPError) -> ModelError:
    from pydantic_ai import exceptions

    said = f"HTTP {error.status_code}: {one_line(_message(error.body) or str(error))}"
    if error.status_code in (401, 403):
        return ModelError(name, f"{said} (is its key the right one?)")
    if error.suggested_model_id:
        return ModelError(name, f"{said}; did you mean {error.suggested_model_id}?")
    is_spent = isinstance(error, exceptions.ModelQuotaExceededError)
    if is_spent or error.status_code not in _TRANSIENT or error.provider_retry_hint is False:
        return ModelError(name, said)
    return _again(name, said, error.retry_after)


def _without_status(name: str, error: ModelAPIError) -> ModelError:
    from pydantic_ai import exceptions

    said = one_line(_message(error.body) or _innermost(error))
    if isinstance(error, exceptions.ModelQuotaExceededError | exceptions.ModelRequestRejectedError):
        return ModelError(name, said)
    return _again(name, said, error.retry_after)


def _again(name: str, said: str, wait_s: float | None) -> ModelError:
    wait_s = _AGAIN_S if wait_s is None else wait_s
    if wait_s > _LONGEST_S:
        return ModelError(name, f"{said} (it asks to wait {wait_s:,.0f} s)")
    return ModelError(name, said, retry_after_s=wait_s)


def _message(body: object) -> str:
    """The sentence in the body of an error, where it is one of the usual shapes."""
    for _ in range(3):
        if not isinstance(body, Mapping):
            break
        found = cast("Mapping[str, Any]", body)
        body = found.get("error") or found.get("message") or found.get("detail") or ""
    return body if isinstance(body, str) else ""


def _innermost(error: BaseException) -> str:
    """What pydantic-ai says, and what the connection itself said."""
    said = deepest = str(error)
    cause = error.__cause__ or error.__context__
    while cause is not None:
        deepest = str(cause) or deepest
        cause = cause.__cause__ or cause.__context__
    return said if deepest in said else f"{said.rstrip('.')}: {deepest}"


def one_line(text: str) -> str:
    """The text in one line, without anything that is a key."""
    for variable, value in os.environ.items():
        if len(value) >= 8 and _SECRET_NAME.search(variable):
            text = text.replace(value, "••••")
    return " ".join(masked(text).split())[:_MOST_CHARS]
