"""Devices: where arrays live and kernels run; NumPy on the CPU is one of them."""
