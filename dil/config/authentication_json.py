"""``ms.authentication`` as a frozen model."""

from __future__ import annotations

from dil.config.shape import Surroundings, as_object, build, texts
from dil.model.authentication import Authentication
from dil.model.json import JsonValue


def authentication(value: JsonValue, around: Surroundings) -> Authentication:
    """Return the model of ``ms.authentication``.

    Raises:
        ShapeError: a member is wrong, missing or unknown.
    """
    written = as_object(value)
    members: dict[str, object] = dict(written)
    if members.get("encryption") == "":  # as DIL's documents write it beside the method custom
        members["encryption"] = "none"
    token = texts({"token": written.get("token")})["token"]
    if isinstance(token, str):
        members["token"] = around.secret(token, "token") if token else None
    return build(Authentication, members)
