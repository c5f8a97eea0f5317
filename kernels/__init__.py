"""Array functions on the CPU and on OpenCL devices, each with a plain-Python reference."""

from kernels.compiled_cache import load_without_compiler, use_own_folder

# Before numba is imported, which reads the setting once.
use_own_folder()
load_without_compiler()
