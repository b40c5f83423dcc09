"""Objects of Google Cloud Storage, Azure's Blob Storage and S3, behind one small interface."""
