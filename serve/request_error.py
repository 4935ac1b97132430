"""`RequestError`: the reason why a request is not answered."""

from __future__ import annotations

from ..support.errors import StepwellError


class RequestError(StepwellError):
    """A request that is not answered, with the status of the response and the fields of OpenAI's error objects.

    Attributes:
        status: the HTTP status.
        param: the field that is wrong, if one is.
        code: the kind of error for programs.
        retry_after: seconds after which the client may try again.
    """

    def __init__(
        self, message: str, *, status: int = 400, param: str | None = None, code: str = "", retry_after: int = 0
    ) -> None:
        super().__init__(message)
        self.status, self.param, self.code, self.retry_after = status, param, code, retry_after
