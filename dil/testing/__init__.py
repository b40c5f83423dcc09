"""Test doubles and contract suites for the authors of connectors and other plug-ins."""
