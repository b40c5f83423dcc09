"""A realm of Kerberos on a free loopback port: MIT's key distribution centre, stopped by pid."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Self

from tests.servers.programs import free_port, needed_program
from tests.servers.third_party import needed
from tests.servers.waiting import wait_until

REALM = "DIL.TEST"
_CLIENT = """[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 {realm} = {{
  kdc = 127.0.0.1:{port}
 }}
"""
_SERVER = """[kdcdefaults]
 kdc_listen = 127.0.0.1:{port}
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
  acl_file = {folder}/none
 }}
"""


class Realm:
    """One realm, from ``with`` to its end; ``config`` is the file for KRB5_CONFIG."""

    def __init__(self) -> None:
        needed("kerberos", "gssapi")
        self._kdc = needed_program("krb5kdc", "/usr/sbin")
        self._admin = needed_program("kadmin.local", "/usr/sbin")
        self._port = free_port()

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="dil-kerberos-"))
        self.config = self.folder / "krb5.conf"
        self.config.write_text(_CLIENT.format(realm=REALM, port=self._port))
        text = _SERVER.format(realm=REALM, port=self._port, folder=self.folder)
        (self.folder / "kdc.conf").write_text(text)
        create = needed_program("kdb5_util", "/usr/sbin")
        self._run(create, "create", "-s", "-r", REALM, "-P", "master")
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [self._kdc, "-n"], stdout=log, stderr=log, env=self._environment(),
                start_new_session=True,
            )  # fmt: skip
        wait_until(self._listens, timeout_s=60)
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=30)
        shutil.rmtree(self.folder)

    def keys(self, *principals: str) -> Path:
        """Return a file with new keys of principals; make principals that do not exist."""
        path = self.folder / f"{principals[0].replace('/', '-')}.keytab"
        for principal in principals:
            self._run(self._admin, "-q", f"addprinc -randkey {principal}")
            self._run(self._admin, "-q", f"ktadd -k {path} {principal}")
        return path

    def change(self, principal: str) -> None:
        """Give a principal a key that is in no file."""
        self._run(self._admin, "-q", f"cpw -randkey {principal}")

    def elsewhere(self) -> Path:
        """Return a configuration that looks for the realm at a port where nobody answers."""
        path = self.folder / "elsewhere.conf"
        path.write_text(_CLIENT.format(realm=REALM, port=free_port()))
        return path

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def _run(self, *command: str) -> None:
        subprocess.run(
            command, check=True, capture_output=True, env=self._environment(), timeout=60
        )

    def _environment(self) -> dict[str, str]:
        profile = str(self.folder / "kdc.conf")
        return {**os.environ, "KRB5_CONFIG": str(self.config), "KRB5_KDC_PROFILE": profile}
