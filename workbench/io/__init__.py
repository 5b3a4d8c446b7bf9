"""Files in and out: data sets, reports, models."""
