"""Array functions on the CPU and on OpenCL devices, each with a plain-Python reference."""
