"""The order of versions, by the rules of PEP 440."""

from __future__ import annotations

import re

_VERSION = (
    r"v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<pre>a|alpha|b|beta|c|rc|pre|preview)[-_.]?(?P<pre_n>\d*))?"
    r"(?P<post>-\d+|[-_.]?(?:post|rev|r)[-_.]?\d*)?"
    r"(?:[-_.]?(?P<dev>dev)[-_.]?(?P<dev_n>\d*))?(?:\+[a-z0-9._-]+)?"
)
_PRE = {"a": 0, "alpha": 0, "b": 1, "beta": 1, "c": 2, "rc": 2, "pre": 2, "preview": 2}
_LAST = (3, 0)

Key = tuple[int, tuple[int, ...], tuple[int, int], int, float, str]


def version_key(version: str) -> Key:
    """Sorts versions from old to new; what is not a version comes before all that are."""
    found = re.fullmatch(_VERSION, version.strip(), re.IGNORECASE)
    if found is None:
        return (-1, (), _LAST, -1, 0.0, version)
    release = [int(part) for part in found["release"].split(".")]
    while len(release) > 1 and release[-1] == 0:
        release.pop()
    pre = _LAST
    if found["pre"]:
        pre = (_PRE[found["pre"].lower()], int(found["pre_n"] or 0))
    elif found["dev"] and not found["post"]:
        pre = (-1, 0)
    post = -1
    if found["post"]:
        post = int(re.sub(r"\D", "", found["post"]) or 0)
    dev = float(found["dev_n"] or 0) if found["dev"] else float("inf")
    return (int(found["epoch"] or 0), tuple(release), pre, post, dev, "")
