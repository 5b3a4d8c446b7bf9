"""Ways to execute an operation that are chosen by measurement: what is asked, what was measured, who decides."""
