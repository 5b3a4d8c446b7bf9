"""Update rules, learning rates and averages of variables."""
