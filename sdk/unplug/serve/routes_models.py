"""Models over HTTP: which are served, and what they say of a picture."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path, Query, Request

from unplug.sdk.drawing.inference import CENTRE, UNSOUGHT

from .shapes import ModelList, ModelShape, Prediction
from .state import HERE, MayAsk, problems

router = APIRouter(tags=["models"])
MODEL = Annotated[str, Path(pattern=r"^[A-Za-z0-9._\-]{1,60}$", description="The model's name.")]
BOX = Annotated[
    str | None,
    Query(
        pattern=r"^\d{1,5},\d{1,5},\d{1,5},\d{1,5}$",
        description="left,top,right,bottom in pixels; default the centre square.",
    ),
]
KINDS = ("image/jpeg", "image/png", "image/webp", "image/bmp")
UNTOLD = (
    "application/octet-stream",
    "binary/octet-stream",
    "application/x-www-form-urlencoded",
    "",
)
"""What clients say that do not know: a file's default, S3's, curl's, nothing."""
BODY = {
    "requestBody": {
        "required": True,
        "content": {
            kind: {"schema": {"type": "string", "format": "binary"}} for kind in (*KINDS, UNTOLD[0])
        },
        "description": "The picture itself: no form, no file name.",
    }
}


@router.get("/models", responses=problems())
async def list_models(here: HERE, _: MayAsk) -> ModelList:
    """Which models answer pictures here, each with the hash of its file."""
    row, model = here.served.row, here.batcher.model
    if row is None or model is None:
        return ModelList(models=[])
    return ModelList(
        models=[
            ModelShape(
                name=row.name,
                sha256=model.sha256,
                since=row.since,
                job=row.job,
                size=model.tensor.height,
                batched=model.batched,
            )
        ]
    )


@router.post(
    "/models/{name}/predict",
    responses=problems(404, 409, 415),
    response_model_exclude_unset=True,
    openapi_extra=BODY,
)
async def predict(
    name: MODEL, request: Request, here: HERE, token: MayAsk, box: BOX = None
) -> Prediction:
    """What a model says of one picture; the answer names the file that gave it. The bytes say of
    which kind it is.
    """
    row, model = here.served.row, here.batcher.model
    if row is None or model is None or row.name != name:
        raise HTTPException(404, "no such model is served")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not kind.startswith("image/") and kind not in UNTOLD:
        raise HTTPException(415, f"send the picture itself, as {', '.join(KINDS)}")
    raw = await request.body()
    async with here.decoding:
        pixels = await asyncio.to_thread(model.pixels, raw, box)
    answer: dict[str, Any] = await here.batcher.answer(model, pixels)
    note = UNSOUGHT if box is None and "age" in answer else None
    crop = CENTRE if box is None else f"box {box}"
    return Prediction(model=name, sha256=model.sha256, crop=crop, note=note, **answer)
