"""A plan kept as a file, so that a run does exactly what a person has approved; pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import msgspec

from dil.errors import ConfigError
from dil.model.work_unit import Plan

FORMAT = 1
_KEY = "--plan"


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """A plan, with the conditions that must still hold when it is run.

    ``digest`` is the digest of the job's configuration; ``backfill`` is the job's switch, which the
    digest leaves out. ``head`` is the hash of the newest block when the plan was made, None for an
    empty chain. ``checksum`` is the SHA-256 of all this; it is only set in the file.
    """

    job: str
    digest: str
    backfill: bool
    head: str | None
    plan: Plan
    format: int = FORMAT
    checksum: str = ""


def encode_plan(saved: SavedPlan) -> bytes:
    """Return the file's content: one JSON object, times in epoch ms UTC.

    Candidates that are not due are left out, because a run does not need them.
    """
    plan = replace(saved.plan, work_units=tuple(saved.plan.work_units), skips=None)
    bare = replace(saved, plan=plan)
    signed = replace(bare, checksum=_checksum(bare))
    return msgspec.json.format(msgspec.json.encode(signed), indent=1) + b"\n"


def decode_plan(content: bytes, name: str) -> SavedPlan:
    """Return the plan in a file that ``encode_plan`` wrote; ``name`` names the file in messages.

    Raises:
        ConfigError: the file is no plan, or has another format.
    """
    try:
        saved = msgspec.json.decode(content, type=SavedPlan)
    except msgspec.MsgspecError as error:
        raise ConfigError.single(
            _KEY,
            f'"{name}" is no plan that `dil plan --out` wrote: {error}',
            "Make it again: dil plan JOB.conf --out FILE",
        ) from error
    if saved.format != FORMAT:
        raise ConfigError.single(
            _KEY,
            f'"{name}" has plan format {saved.format}, this dil reads format {FORMAT}',
            "Make it again: dil plan JOB.conf --out FILE",
        )
    plan = replace(saved.plan, work_units=tuple(saved.plan.work_units))
    bare = replace(saved, plan=plan, checksum="")
    if saved.checksum != _checksum(bare):
        raise ConfigError.single(
            _KEY,
            f'"{name}" was changed since `dil plan --out` wrote it',
            "Make it again: dil plan JOB.conf --out FILE. A smaller plan comes from a narrower "
            "range, or from ms.work.unit.parallelism.max.",
        )
    return bare


def is_plan(content: bytes) -> bool:
    """Return whether ``encode_plan`` wrote a file, in any format."""
    try:
        return msgspec.json.decode(content, type=_Named).checksum != ""
    except (msgspec.MsgspecError, ValueError):
        return False


class _Named(msgspec.Struct):
    job: str
    format: int
    checksum: str


def _checksum(bare: SavedPlan) -> str:
    return hashlib.sha256(msgspec.json.encode(bare)).hexdigest()
