"""Spark's Python daemon for sessions of tests, which imports once what its forks need.

Spark starts a daemon for each kind of work, and forks a worker for each step of a query. Each fork
of the daemon of its own imports all modules anew. The server of Spark Connect has that one.
"""

import gc

import pyspark.worker  # noqa: F401 - this and what follows is for the forks
from pyspark import daemon

import dil.execution.spark
import dil.spark.source
import dil.task.work_unit  # noqa: F401

if __name__ == "__main__":
    gc.freeze()
    daemon.manager()
