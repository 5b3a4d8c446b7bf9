"""Models with train, evaluate and predict: estimators, their heads, columns, hooks and exports."""
