"""What exists: a family of operations a file, an operation a block."""
