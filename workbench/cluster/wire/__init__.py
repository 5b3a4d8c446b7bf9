"""Bytes and records: what crosses between processes and how it is checked."""
