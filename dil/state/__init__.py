"""The metadata chain, the work-unit index, leases."""
