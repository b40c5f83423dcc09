"""The metadata chain, the work-unit index, leases."""

from dil.state.keeping import LeaseKeeper
from dil.state.opening import open_store

__all__ = ["LeaseKeeper", "open_store"]
