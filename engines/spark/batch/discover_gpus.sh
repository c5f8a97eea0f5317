#!/bin/sh
# Says which GPUs this machine has, as Spark wants to be told: {"name": "gpu", "addresses": ["0", …]}.
# An address is a device's place among the OpenCL GPUs with double precision, in the order in which
# Sheaf lists them. Name this file as spark.worker.resource.gpu.discoveryScript (standalone) or
# spark.executor.resource.gpu.discoveryScript (YARN, Kubernetes); see docs/spark.md.
exec "${PYSPARK_PYTHON:-python3}" - <<'END'
import json

found = 0
try:
    import pyopencl as cl

    for platform in cl.get_platforms():
        try:
            devices = platform.get_devices(cl.device_type.GPU)
        except cl.Error:
            continue
        found += sum(bool(device.double_fp_config) for device in devices)
except Exception:  # no OpenCL, or a driver that does not start: no GPU that could be used
    pass
print(json.dumps({"name": "gpu", "addresses": [str(i) for i in range(found)]}))
END
