"""``dil secrets``: encrypts and re-encrypts ``ENC(...)``; secrets come from standard input only."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import click

from dil.cli.groups import LazyGroup
from dil.cli.stdout import emit, emit_lines
from dil.errors import ConfigError
from dil.model.messages import suggestion
from dil.observe.progress import counted
from dil.secrets import SecretError, SecretResolver, is_encrypted, read_master_passwords
from dil.secrets.authenticated import Encryptor, purpose_of
from dil.secrets.rewriting import reencrypt as encrypted_again
from dil.storage import LocalFilesystem
from dil.storage.replacing import replace_file

_KEY_FIX = "Name a file whose first line is the master password, such as that of encrypt.key.loc."
_FILES_TRIED = 2

_key_option = click.option(
    "--key", "key", metavar="FILE", required=True,
    help="File whose first line is the master password, such as that of encrypt.key.loc.",
)  # fmt: skip
_strong_option = click.option(
    "--strong", is_flag=True, help="Read DIL's texts as encrypt.use.strong.encryptor=true does."
)


@click.group(cls=LazyGroup)
def secrets() -> None:
    """Encrypt secrets for job files; read from standard input, never from arguments."""


@secrets.command(short_help="Encrypt a secret; print the text for the job file.")
@_key_option
@click.option(
    "--for", "purpose", metavar="PROPERTY", default="",
    help="The only property in which the text opens, such as ms.authentication; "
         "ms.secondary.input:FIELD is a field of its rows. Without the option, the text opens in "
         "all properties.",
)  # fmt: skip
def encrypt(key: str, *, purpose: str) -> int:
    """Encrypt a secret and print the ENC(...) to write into a job file."""
    encryptor, name = Encryptor.of(_passwords(key)[0]), _purpose(purpose)
    emit(f"{encryptor.encrypt(_input('Secret', confirm=True), name)}\n")
    return 0


def _purpose(written: str) -> str:
    """Return the name under which a job reads the property, never an alias."""
    from dil.config.table import ALIASES, PLUGIN_PREFIX, TABLE

    key, colon, field = written.partition(":")
    name = ALIASES.get(key, key)
    is_field = key == "ms.secondary.input"
    if (colon and not (is_field and field)) or (is_field and not field):
        fix = "Write ms.secondary.input:FIELD for a field of its rows, else only the property."
        raise ConfigError.single("--for", f"is {written}, which holds no secret", fix)
    if written and name not in TABLE and not name.startswith(PLUGIN_PREFIX):
        fix = suggestion(key, TABLE) or "dil explain PROPERTY describes the properties."
        raise ConfigError.single("--for", f"is {key}, which is no known property", fix)
    return f"{name}{colon}{field}"


@secrets.command()
@_key_option
@_strong_option
@click.option("--yes", "is_sure", is_flag=True, help="Print the secret unencrypted.")
def decrypt(key: str, *, strong: bool, is_sure: bool) -> int:
    """Decrypt an ENC(...) text and print the secret unencrypted."""
    if not is_sure:
        raise click.UsageError("This prints the secret in the clear. Say --yes if you mean it.")
    resolver, text = _resolver(key, strong=strong), _input("ENC(...)").strip()
    if not is_encrypted(text):
        raise ConfigError.single(
            "", "standard input holds no ENC(...)", "Write the whole text, with ENC( and )."
        )
    try:
        emit(f"{resolver.resolve(text, purpose_of(text)).reveal()}\n")
    except SecretError as error:
        raise ConfigError.single("", f"ENC(...) {error.what}", error.fix) from None
    return 0


@secrets.command(short_help="Encrypt every ENC(...) of one file again.")
@click.argument("job_file", metavar="JOB.conf")
@_key_option
@_strong_option
@click.option("--new-key", metavar="FILE", help="Encrypt under this master password instead.")
@click.option("--write", "is_written", is_flag=True, help="Change the file; else only report.")
def reencrypt(
    job_file: str, key: str, *, strong: bool, new_key: str | None, is_written: bool
) -> int:
    """Encrypt every ENC(...) of one file again: to leave DIL's forms, or the old password."""
    resolver = _resolver(key, strong=strong)
    try:
        # Line ends do not change.
        text = Path(job_file).read_bytes().decode("utf-8")
    except OSError as error:
        what = f"{job_file} cannot be read: {error.strerror}"
        fix = "Name a job file that this user may read."
        raise ConfigError.single("", what, fix) from error
    except UnicodeDecodeError as error:
        what = f"{job_file} is not UTF-8 text: {error}"
        raise ConfigError.single("", what, "Save it as UTF-8.") from error
    try:
        rewritten = encrypted_again(text, resolver, Encryptor.of(_passwords(new_key or key)[0]))
    except SecretError as error:
        raise ConfigError.single("", f"{job_file}: {error.what}", error.fix) from None
    emit_lines(f"{job_file}:{line}" for line in rewritten.lines)
    lines = counted(len(rewritten.lines), "line")
    if not is_written:
        emit(f"{lines} would change; --write changes the file\n")
    else:
        path = Path(job_file)
        mode = stat.S_IMODE(path.stat().st_mode)
        replace_file(path, rewritten.text.encode(), mode=mode)
        emit(f"{lines} changed\n")
    return 0


def _passwords(key: str) -> tuple[str, ...]:
    try:
        found = read_master_passwords(key, _FILES_TRIED, LocalFilesystem().open_input)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError.single("--key", f"cannot be read: {reason}", _KEY_FIX) from error
    if not found:
        raise ConfigError.single("--key", f"names {key}, which does not exist", _KEY_FIX)
    return found


def _resolver(key: str, *, strong: bool) -> SecretResolver:
    return SecretResolver({}, Path.cwd(), _passwords(key), strong)


def _input(what: str, *, confirm: bool = False) -> str:
    """Return standard input without its last line end; ask a terminal without an echo."""
    if sys.stdin.isatty():
        text: str = click.prompt(what, hide_input=True, confirmation_prompt=confirm, err=True)
    else:
        text = sys.stdin.read().removesuffix("\n").removesuffix("\r")
    if not text:
        raise ConfigError.single(
            "", "standard input is empty", "Pipe the text into it: dil secrets ... < FILE."
        )
    return text
