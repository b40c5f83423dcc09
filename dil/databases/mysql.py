"""MySQL and MariaDB: what the numbers of their errors mean."""

from __future__ import annotations

from collections.abc import Mapping

from dil.databases.faults import Fault, LoginProperties, server_advice

# By error number (MySQL manual, "Server Error Message Reference" and "Client Error Message
# Reference"; MariaDB's numbers begin at 1900 and 4000). 0 is PyMySQL's own code for a connection
# that it has closed, 1047 a node that is not part of its cluster.
_CODES: Mapping[Fault, tuple[int, ...]] = {
    Fault.LOST: (0, 1047, 1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 2006, 2013,
                 2014, 2055, 4031),
    Fault.UNREACHABLE: (2002, 2003, 2005),
    Fault.TOO_MANY: (1040, 1203, 1226),
    Fault.LOGIN: (1045, 1251, 1698, 1862, 3118, 4151),
    Fault.NO_DATABASE: (1049,),
    Fault.NO_DATABASE_RIGHT: (1044,),
    Fault.OPTIONS: (2026,),
    Fault.TLS_ONLY: (3159,),
    Fault.HOST_BLOCKED: (1129,),
    Fault.CONFLICT: (1213,),
    Fault.LOCKED: (1205, 3572),
    Fault.CHANGED: (1020, 1412),
    Fault.EXISTS: (1050, 1060, 1061),
    Fault.DUPLICATE: (1062,),
    Fault.TIMED_OUT: (1317, 1969, 3024),
    Fault.DISK_FULL: (1021,),
    Fault.TOO_LARGE: (1153,),
    Fault.UNSAFE_BINLOG: (1665,),
    Fault.DENIED: (1142, 1143, 1227, 1370),
    Fault.READ_ONLY: (1290, 1792, 1836),
    Fault.NO_TABLE: (1146,),
    Fault.NO_COLUMN: (1054,),
    Fault.DOES_NOT_FIT: (1406,),
}  # fmt: skip
_FAULTS = {code: fault for fault, codes in _CODES.items() for code in codes}
# Classes of SQLSTATE that are about what is asked for, and about its values.
_REFUSED = ("0A", "21", "22", "23", "3D", "42")
_GRANT = "Give the user the right: GRANT ALL ON name.* TO user."


def code_of(error: Exception) -> int | None:
    """Return the number of an error of PyMySQL, None where it has none."""
    code = error.args[0] if error.args else None
    return code if isinstance(code, int) else None


def text_of(error: Exception) -> str:
    """Return what the server said, on one line."""
    said = error.args[1] if len(error.args) > 1 else error
    return " ".join(str(said).split()) or "the connection is closed"


def fault_of(error: Exception) -> Fault:
    """Return what an error of PyMySQL means: by its number, its SQLSTATE, its class."""
    from pymysql import err

    code = code_of(error)
    if "CERTIFICATE_VERIFY_FAILED" in str(error):  # the number is that of a server that is away
        return Fault.UNTRUSTED
    if code in _FAULTS:
        return _FAULTS[code]
    if isinstance(error, err.InterfaceError | OSError):
        return Fault.LOST
    state = str(getattr(error, "sqlstate", None) or "")
    if state.startswith(_REFUSED) or isinstance(error, err.ProgrammingError | err.DataError):
        return Fault.REFUSED
    return Fault.OTHER


def advice(names: LoginProperties) -> Mapping[Fault, str]:
    """Return what to do about the faults of a server, by the names of the job's properties."""
    options = f"Check the ssl options in {names.url}."
    return {
        **server_advice(names),
        Fault.NO_DATABASE_RIGHT: _GRANT,
        Fault.DENIED: _GRANT,
        Fault.HOST_BLOCKED: "The server blocks this host after failed connections: FLUSH HOSTS on"
        " the server.",
        Fault.TOO_LARGE: "Raise the server's max_allowed_packet; 64M is enough for most jobs.",
        Fault.UNSAFE_BINLOG: "Set the server's binlog_format to ROW or MIXED.",
        Fault.OPTIONS: options,
        Fault.UNTRUSTED: options,
        Fault.TLS_ONLY: options,
    }
