"""The state store on a folder of files, for places without a server or file locks."""
