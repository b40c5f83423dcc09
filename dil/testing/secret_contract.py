"""The framework's requirements on a secret resolver, as tests for yours; they need pytest.

Subclass ``SecretResolverContract`` in a test module and give it a fixture ``store``: a
``SecretHarness`` that keeps secrets in your store, and takes the store away. pytest runs the rest::

    class TestVault(SecretResolverContract):
        @pytest.fixture
        def store(self) -> Iterator[SecretHarness]:
            with VaultServer() as server:
                yield VaultHarness(server)

Only tests import this module: ``dil`` itself does not need pytest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path

import pytest

from dil import config
from dil.errors import ConfigError
from dil.model.secret import Secret
from dil.sections.source import SourceSection
from dil.spi.secret_resolver import ReferenceResolver, ResolverContext, UnresolvedReferenceError

# Texts that a store, a query or a job file may take for something else.
_TEXTS = (
    "s3cret", " blanks at both ends ", "ümläut ✓", "line\nbreak", "a=b&c?d#e/f%20:", "{{x}} ${y}",
    "ENC(no)", "env:HOME", '"quoted" \\ back', "x" * 4096,
)  # fmt: skip
_JOB = """
job.name=secrets
extract.table.name=secrets
ms.timezone=UTC
source.class=http
ms.source.uri=https://localhost/rows
ms.extractor.class=json
data.publisher.final.dir=lake
"""


class SecretHarness(ABC):
    """The tests' access to your store: each test has a new one, and may fill and break it.

    ``kind`` is your class, in a module that can be imported. ``environ`` is the environment from
    which the class reads its settings. ``malformed`` are references that ``check`` must refuse;
    leave ``malformed`` empty if your store takes any text as a reference. ``hidden`` are texts that
    no message may show, such as the store's token.
    """

    kind: type[ReferenceResolver]
    environ: Mapping[str, str] = {}
    malformed: Collection[str] = ()
    hidden: Collection[str] = ()

    @abstractmethod
    def keep(self, secret: str) -> str:
        """Keep a secret in the store, and return the reference to it, without the prefix."""

    @abstractmethod
    def missing(self) -> str:
        """Return a reference of the right form to a secret that does not exist."""

    @abstractmethod
    def gone(self) -> None:
        """Take the store away; all later requests to it fail."""

    def refusing(self) -> Mapping[str, str]:
        """Return an environment whose login the store refuses."""
        pytest.skip("this store asks for no login")


class SecretResolverContract:
    """The tests; subclass this class, see the top of the module."""

    @pytest.fixture
    def store(self) -> SecretHarness:
        """Return your store; your subclass has to define this fixture."""
        raise NotImplementedError("give the test class a fixture `store`")

    @pytest.mark.parametrize("text", _TEXTS, ids=range(len(_TEXTS)))
    def test_a_secret_comes_as_it_was_kept(
        self, store: SecretHarness, text: str, tmp_path: Path
    ) -> None:
        """A secret comes back with every character: no trimming, no decoding, no templates."""
        assert _made(store, tmp_path).resolve(store.keep(text)) == text

    def test_each_reference_leads_to_its_own_secret(
        self, store: SecretHarness, tmp_path: Path
    ) -> None:
        """The references to two secrets in one store lead to different secrets."""
        first, second = store.keep("one"), store.keep("two")
        made = _made(store, tmp_path)
        assert [made.resolve(first), made.resolve(second)] == ["one", "two"]

    def test_a_secret_that_is_not_there_is_an_error(
        self, store: SecretHarness, tmp_path: Path
    ) -> None:
        """A missing secret is an error that says what to do, and not an empty secret."""
        made = _made(store, tmp_path)
        _refused(store, lambda: made.resolve(store.missing()))

    def test_a_store_that_is_gone_is_an_error(self, store: SecretHarness, tmp_path: Path) -> None:
        """A store that cannot be reached is reported like a missing secret."""
        reference = store.keep("kept")
        store.gone()
        made = _made(store, tmp_path)
        _refused(store, lambda: made.resolve(reference))

    def test_a_store_that_refuses_is_an_error(self, store: SecretHarness, tmp_path: Path) -> None:
        """A refused login is reported, without the login."""
        reference = store.keep("kept")
        made = store.kind(ResolverContext({**store.environ, **store.refusing()}, tmp_path))
        _refused(store, lambda: made.resolve(reference))

    def test_settings_that_are_missing_are_an_error(
        self, store: SecretHarness, tmp_path: Path
    ) -> None:
        """A resolver can be made in an empty environment; only asking it fails."""
        reference = store.keep("kept")
        made = store.kind(ResolverContext({}, tmp_path))
        if store.environ:
            _refused(store, lambda: made.resolve(reference))

    def test_a_form_is_checked_without_the_store(
        self, store: SecretHarness, tmp_path: Path
    ) -> None:
        """`dil plan` checks references and asks no store."""
        reference = store.keep("kept")
        store.gone()
        made = _made(store, tmp_path)
        made.check(reference)
        for each in store.malformed:
            _refused(store, partial(made.check, each))

    def test_a_job_has_the_secret(self, store: SecretHarness, tmp_path: Path) -> None:
        """A whole job is loaded; it shows the secret nowhere."""
        job = _loaded(store, tmp_path, store.keep("s3cret of the job"), secrets=True).job
        assert job.properties.section(SourceSection).password == Secret("s3cret of the job")
        assert "s3cret of the job" not in repr(job)

    def test_a_job_without_its_secret_is_refused(
        self, store: SecretHarness, tmp_path: Path
    ) -> None:
        """The problem names the property that has the reference."""
        with pytest.raises(ConfigError) as caught:
            _loaded(store, tmp_path, store.missing(), secrets=True)
        assert [each.key for each in caught.value.problems] == ["source.conn.password"]

    def test_a_plan_does_without_the_store(self, store: SecretHarness, tmp_path: Path) -> None:
        """Planning and looking at state need no secret of the source."""
        reference = store.keep("kept")
        store.gone()
        loaded = _loaded(store, tmp_path, reference, secrets=False)
        assert [each for each in loaded.notices if each.key == "source.conn.password"] == []


def _made(store: SecretHarness, folder: Path) -> ReferenceResolver:
    return store.kind(ResolverContext(store.environ, folder))


def _loaded(store: SecretHarness, folder: Path, reference: str, *, secrets: bool) -> config.Loaded:
    kind = f"{store.kind.__module__}:{store.kind.__qualname__}"
    lines = [_JOB, f"ms.secret.resolvers=mine={kind}", f"source.conn.password=mine:{reference}"]
    path = folder / "secrets.conf"
    path.write_text("\n".join(lines), encoding="utf-8")
    return config.load(path, environ=store.environ, secrets=secrets)


def _refused(store: SecretHarness, ask: Callable[[], object]) -> None:
    with pytest.raises(UnresolvedReferenceError) as caught:
        ask()
    error = caught.value
    assert error.what, "an error says what is wrong"
    assert error.fix, "an error says what to do"
    shown = [text for text in store.hidden if text in f"{error} {error.what} {error.fix}"]
    assert shown == [], "an error shows no secret"
