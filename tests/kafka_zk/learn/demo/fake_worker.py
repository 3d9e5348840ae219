"""Stands for ``extraction_worker``: emits the events of an extraction, or those of its configuration."""

import json
import sys
import threading

if __name__ == "__main__":
    config = json.loads(sys.argv[1])
    if told := config.get("fails"):
        sys.exit(f"WARN something\nError: {told}")
    if config.get("hangs"):
        threading.Event().wait()
    print(json.dumps({"event": "started", "seconds": 1.5}), flush=True)
    for line in sys.stdin:
        for done in range(1000):
            print(json.dumps({"event": "progress", "done": done, "total": 1000}))
        print(json.dumps({"event": "extracted", "asked": json.loads(line)}), flush=True)
