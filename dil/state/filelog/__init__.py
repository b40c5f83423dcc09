"""The state store over a folder of files, for places without a server and without file locks."""
