"""HDFS that accepts only users with a ticket of a realm of Kerberos."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from urllib.parse import quote

import requests

from tests.servers.hdfs import SUPERUSER, Hdfs
from tests.servers.kerberos import REALM, Realm

SERVICE = "HTTP/localhost"
_NODES = f"{SUPERUSER}/localhost"


class SecureHdfs(Hdfs):
    """A cluster of ``localhost``; to ask it, a test needs KRB5_CONFIG and gssapi."""

    def __init__(self, realm: Realm) -> None:
        super().__init__(host="localhost")
        self._realm = realm
        self.keys = realm.keys(_NODES, SERVICE)
        self.options = (f"-Djava.security.krb5.conf={realm.config}",)

    def ask(
        self, method: str, path: str, operation: str, data: bytes = b"", **query: str
    ) -> requests.Response:
        """Send a request of the superuser, without ``dil``; redirects are followed."""
        answer = requests.request(
            method, f"{self.server}/webhdfs/v1{quote(path)}", timeout=60, allow_redirects=False,
            params={"op": operation, **query}, headers={"Authorization": self._ticket()},
        )  # fmt: skip
        if not answer.is_redirect:
            return answer
        return requests.request(method, answer.headers["Location"], data=data or None, timeout=60)

    def _ticket(self) -> str:
        import gssapi

        place = {
            "client_keytab": f"FILE:{self.keys}",
            "ccache": f"FILE:{self._realm.folder}/superuser.cache",
        }
        user = gssapi.Name(f"{_NODES}@{REALM}", gssapi.NameType.kerberos_principal)
        token = gssapi.SecurityContext(
            name=gssapi.Name("HTTP@localhost", gssapi.NameType.hostbased_service),
            creds=gssapi.Credentials(name=user, usage="initiate", store=place),
            mech=gssapi.OID.from_int_seq("1.3.6.1.5.5.2"),
        ).step()
        return f"Negotiate {base64.b64encode(token).decode()}"

    def _more(self, name: str) -> Mapping[str, str]:
        nodes, service = f"{_NODES}@{REALM}", f"{SERVICE}@{REALM}"
        if name == "core":
            return {
                "hadoop.security.authentication": "kerberos",
                "hadoop.http.authentication.type": "kerberos",
                "hadoop.http.authentication.kerberos.principal": service,
                "hadoop.http.authentication.kerberos.keytab": str(self.keys),
                "hadoop.http.filter.initializers": (
                    "org.apache.hadoop.hdfs.web.AuthFilterInitializer"
                ),
            }
        return {
            "dfs.namenode.kerberos.principal": nodes,
            "dfs.namenode.keytab.file": str(self.keys),
            "dfs.datanode.kerberos.principal": nodes,
            "dfs.datanode.keytab.file": str(self.keys),
            "dfs.web.authentication.kerberos.principal": service,
            "dfs.web.authentication.kerberos.keytab": str(self.keys),
            "dfs.block.access.token.enable": "true",
            # Data nodes would need ports that only root may open.
            "ignore.secure.ports.for.testing": "true",
        }
