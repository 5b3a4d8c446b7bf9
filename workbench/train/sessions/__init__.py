"""Sessions that go on: hooks, coordinators, recovery."""
