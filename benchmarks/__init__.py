"""Ours and the peers side by side: same work, same threads, same precision, interleaved in one run."""
