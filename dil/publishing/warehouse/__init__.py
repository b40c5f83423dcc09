"""Tables of databases: staged rows are loaded in one transaction with a row in ``dil_commit``."""

from dil.publishing.warehouse.destination import WarehouseDestination

__all__ = ["WarehouseDestination"]
