#!/opt/silot/bin/python -IS
"""Exit with 0 where the member that runs in this container is healthy, or ready to work.

The health port listens on the loopback of the container alone, so whoever supervises it runs
``silot-probe health`` or ``silot-probe ready`` inside. What is wrong is printed as codes.
"""

import http.client
import os
import sys

line = http.client.HTTPConnection("127.0.0.1", int(os.environ["SILOT_HEALTH"]), timeout=5)
try:
    line.request("GET", f"/{sys.argv[1]}")
    reply = line.getresponse()
    print(reply.read().decode().strip())
except OSError:
    sys.exit("nothing listens at the health port")
sys.exit(reply.status != http.client.OK)
