"""Filesystems behind one seam."""
