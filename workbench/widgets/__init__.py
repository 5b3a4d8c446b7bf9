"""View models to live notebook widgets; importing it in an IPython kernel connects the kernel to the lab panel."""
import sys

if "ipykernel.kernelbase" in sys.modules:        # elsewhere it costs nothing
    from workbench.widgets.bridge import start_if_kernel

    start_if_kernel()
