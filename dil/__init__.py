"""Config-driven ingestion on Spark, in the vocabulary of LinkedIn's Data Integration Library."""

__version__ = "0.1.0"
