"""Objects of S3, and of services that speak its protocol."""
