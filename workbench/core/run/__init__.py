"""A step happens: the executor, the threads that drive it, where sends meet receives, and the session."""
