"""Changes bytes between connector and extractor: compression, archives, PGP."""
