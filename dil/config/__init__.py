"""Text of a job file to a parsed job."""
