"""Estimators by the names of tf.contrib.learn: models of functions, ready ones, heads, monitors, exports."""
