"""Objects behind one small contract: of Google Cloud Storage, of Azure's Blob Storage, of S3."""
