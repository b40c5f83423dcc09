"""The metadata chain, the work-unit index, and leases."""

from dil.state.opening import open_store
from dil.state.runs.leases import LeaseKeeper

__all__ = ["LeaseKeeper", "open_store"]
