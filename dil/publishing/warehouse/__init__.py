"""Loads staged rows into tables of databases, in one transaction with a row in ``dil_commit``."""

from dil.publishing.warehouse.destination import WarehouseDestination

__all__ = ["WarehouseDestination"]
