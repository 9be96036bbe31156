"""What goes over the wire: the models of the OpenAPI document."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:\-]{0,99}$")]
Name = Annotated[str, StringConstraints(min_length=1, max_length=500)]
Line = Annotated[str, StringConstraints(max_length=1000, pattern="^[ -~\u00c0-\u024f]*$")]
RequestState = Literal["open", "released", "answered", "refused", "withdrawn"]
JobState = Literal["queued", "running", "done", "failed"]


class Given(BaseModel):
    """A body: nothing is converted, and nothing is in it that is not read."""

    model_config = ConfigDict(extra="forbid", strict=True)


class NewRequest(Given):
    """The people who ask to be forgotten. Names are kept as keyed digests only, and stand in no
    answer.
    """

    names: list[Name] = Field(
        min_length=1, max_length=1000, description="Sample ids and subject:NAME."
    )
    id: Id | None = Field(
        None,
        description="Your ticket's number, which stands in clear: never a name. Default: made up.",
    )
    received: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")] | None = Field(
        None,
        description="The day on which it came; default today.",
        json_schema_extra={"format": "date"},
    )
    identity: Line = Field("", description="How it was checked who asks, without names.")


class Withdrawal(Given):
    """The person has taken the request back, or some names do not belong to it."""

    reason: Line = Field("", description="Why, without names.")
    names: list[Name] = Field(
        default_factory=list,
        max_length=1000,
        description="Names to take out, the others stay; none ends the request.",
    )


class Step(BaseModel):
    """An entry of the ledger about a request."""

    entry: int
    at: str
    kind: str
    note: str
    facts: dict[str, str]


class RequestShape(BaseModel):
    """How a request stands."""

    id: str
    state: RequestState
    received: date
    due: date
    days_left: int | None = Field(description="Null where nothing is left to do.")
    extended: bool
    names: int = Field(description="How many names it holds.")
    job: str | None = Field(description="The release that answered it.")


class RequestDetail(RequestShape):
    """A request with everything that was recorded about it."""

    new: bool = False
    steps: list[Step]


class RequestPage(BaseModel):
    """Some requests, in the order in which they came."""

    requests: list[RequestShape]
    next: int | None = Field(
        description="`after` of the page after this one; null where there is none."
    )


class Deadlines(BaseModel):
    """What is late or soon."""

    today: date
    late: int
    soon: int = Field(description="Late or due within the days that were asked for.")
    waiting: int
    requests: list[RequestShape] = Field(description="The first 500 of `soon`.")


class JobShape(BaseModel):
    """A release."""

    id: str
    state: JobState
    created: str
    started: str | None
    finished: str | None
    attempts: int
    requests: list[str]
    files: list[str] = Field(description="What may be fetched: the bundle, and certificates.")
    error: str | None
    model: str | None = Field(description="Of which model; null before a server took it.")
    certificates: Literal["due", "done", "failed"] | None = Field(
        description="Null where the release leaves none."
    )


class JobList(BaseModel):
    """The newest releases first."""

    jobs: list[JobShape]


class ModelShape(BaseModel):
    """A model that is served."""

    name: str
    sha256: str = Field(description="Of the file that answers.")
    since: str
    job: str | None = Field(description="The release that brought it; null for the first file.")
    size: int = Field(description="Side of the picture that it sees.")
    batched: bool


class ModelList(BaseModel):
    """All models that are served."""

    models: list[ModelShape]


class Prediction(BaseModel):
    """What a model says of a picture."""

    model: str
    sha256: str = Field(description="Of the file that answered.")
    age: float | None = Field(None, description="Years, of an age model.")
    groups: list[dict[str, Any]] | None = Field(
        None, description="Age groups by falling probability."
    )
    label: str | None = Field(None, description="The likeliest class, of a classifier.")
    probability: float | None = Field(None, description="Of that class.")
    labels: list[dict[str, Any]] | None = Field(None, description="The likeliest classes.")
    outputs: dict[str, Any] | None = Field(None, description="Outputs of any other model, by name.")
    crop: str = Field(description="What the model saw of the picture: a box, or its centre square.")
    note: str | None = Field(None, description="Of an age model: that nothing looked for a face.")


class Problem(BaseModel):
    """Why not."""

    status: int
    detail: str


class Alive(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"
    version: str


class Ready(BaseModel):
    """Whether requests are taken."""

    status: Literal["ready", "not ready"]
    database: bool
    model: bool | None = Field(description="Null where no model is to be served.")
    down: list[str] = Field(description="What should work in the background and does not.")
