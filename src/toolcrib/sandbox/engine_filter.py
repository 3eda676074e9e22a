"""The same system call rules in the form that container engines read."""

from __future__ import annotations

import atexit
import errno
import functools
import json
import os
import socket
import tempfile
from pathlib import Path
from typing import Any

from toolcrib.sandbox import seccomp, syscalls

_TERMINAL_INPUT = (0x5412, 0x541C)


def profile() -> dict[str, Any]:
    """Everything is allowed that the filter allows; the rest fails as it does there."""
    families = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)
    deny = {"action": "SCMP_ACT_ERRNO", "errnoRet": errno.EPERM}
    rules: list[dict[str, Any]] = [
        {"names": sorted(syscalls.DENIED), **deny},
        {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.ENOSYS},
    ]
    for flag in range(32):
        bit = 1 << flag
        if bit & seccomp.NEW_NAMESPACE:
            test = {"index": 0, "value": bit, "valueTwo": bit, "op": "SCMP_CMP_MASKED_EQ"}
            rules.append({"names": ["clone"], "args": [test], **deny})
    for request in _TERMINAL_INPUT:
        test = {"index": 1, "value": request, "op": "SCMP_CMP_EQ"}
        rules.append({"names": ["ioctl"], "args": [test], **deny})
    for family in range(64):
        if family not in families:
            test = {"index": 0, "value": family, "op": "SCMP_CMP_EQ"}
            rules.append({"names": ["socket"], "args": [test], **deny})
    return {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules}


@functools.cache
def profile_file() -> str:
    """The rules in a file, which is taken away when the host ends."""
    descriptor, path = tempfile.mkstemp(prefix="toolcrib-filter-", suffix=".json")
    with os.fdopen(descriptor, "w") as file:
        json.dump(profile(), file)
    atexit.register(Path(path).unlink, missing_ok=True)
    return path
